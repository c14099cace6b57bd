from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from steelyard.hall.texts import shorten, without_folder


def test_a_text_within_the_limit_stays_as_it_is():
    assert shorten("x" * 64) == "x" * 64
    assert shorten("Größe: 3 µm, ja; 雪 und 🐈") == "Größe: 3 µm, ja; 雪 und 🐈"


def test_a_longer_text_ends_in_an_ellipsis_at_the_limit():
    assert shorten("x" * 65) == "x" * 63 + "…"
    assert shorten("abcdef", limit=3) == "ab…"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("two\nlines\ttab", "two\\nlines\\ttab"),
        ("\x1b[31mred", "\\x1b[31mred"),
        ("\ud83d alone", "\\ud83d alone"),
        ("right\u202eleft", "right\\u202eleft"),
    ],
)
def test_characters_that_could_spoil_a_log_are_escaped(text, shown):
    assert shorten(text) == shown


@given(st.text(alphabet=st.characters(), max_size=200))
def test_whatever_comes_in_one_printable_line_comes_out(text):
    shortened = shorten(text)
    assert shortened.isprintable()
    assert shorten(shortened, limit=len(shortened)) == shortened
    shortened.encode("utf-8")


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("Qwen/Qwen3.5-4B", "Qwen/Qwen3.5-4B"),
        ("embedded", "embedded"),
        ("", ""),
        ("/home/me/model", "model"),
        ("mine/model.gguf", "model.gguf"),
        ("models/mine/model", "model"),
        ("./model", "model"),
        ("~/model", "model"),
        (".", "."),
        ("/", "/"),
    ],
)
def test_a_path_is_shown_without_its_folder_and_a_hub_id_as_it_is(text, shown):
    assert without_folder(text) == shown
