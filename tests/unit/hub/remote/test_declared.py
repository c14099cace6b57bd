from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from steelyard.hub.remote.apply import read_document
from steelyard.hub.remote.declared import read_cases_of
from steelyard.hub.remote.errors import BadFile

if TYPE_CHECKING:
    from pathlib import Path

CASE = {
    "case_id": "0e0a2a52-4c3f-4b9d-8f6a-1c1d2f3a4b5c",
    "query": " Where? ",
    "labels": {"a": 1},
    "critical": True,
    "review": {"reviewer": "Ada", "reviewed_at": "2026-11-02T09:30:00Z"},
    "label_provenance": {"corpus_revision": "ab" * 32, "sheet": {"row": 1.5}},
}


def naming(*files: object) -> dict[str, Any]:
    suites = {f"s{number}": {"revision": {"cases": file}} for number, file in enumerate(files)}
    return {"projects": {"p": {"suites": suites}}}


def test_a_name_becomes_the_cases_of_the_file_beside_the_document(tmp_path: Path):
    inner = tmp_path / "inner"
    inner.mkdir()
    (inner / "faq.jsonl").write_text(json.dumps(CASE), "utf-8")
    path = inner / "hub.toml"
    path.write_text(
        '[projects.p]\nname = "P"\n[projects.p.suites.faq]\nname = "F"\nrevision.cases = "faq.jsonl"\n'
        "revision.retrieval_settings = { top_k = 3, weights = { title = 2.0 } }\n",
        "utf-8",
    )
    revision = read_document(path)["projects"]["p"]["suites"]["faq"]["revision"]
    assert revision == {"cases": [CASE], "retrieval_settings": {"top_k": 3, "weights": {"title": 2.0}}}


def test_every_file_that_cannot_be_read_is_told(tmp_path):
    (tmp_path / "b").write_bytes(b"\xff")
    with pytest.raises(BadFile) as bad:
        read_cases_of(naming("a", "b", "c\0"), folder=tmp_path)
    first, second, third = str(bad.value).splitlines()
    assert first.startswith("projects.p.suites.s0.revision.cases: ")
    assert first.endswith("/a cannot be read: No such file or directory")
    assert second.endswith("/b is not UTF-8: byte 0 is invalid")
    assert third.startswith("projects.p.suites.s2.revision.cases: ")


@pytest.mark.parametrize(
    "document",
    [{}, {"projects": 1}, {"projects": {"p": 1}}, {"projects": {"p": {"suites": []}}}, naming(), naming(1, [], None)],
)
def test_what_has_another_form_is_left_to_the_schema(document, tmp_path):
    assert read_cases_of(document, folder=tmp_path) == []
