"""Secrets: their form, their check digits, and how a sent one is compared."""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from steelyard.hub.credentials import domain
from steelyard.hub.credentials.domain import (
    is_secret,
    new_secret,
    public_id_in,
    public_id_of,
    sha256_of_secret,
)

ROLES = ("viewer", "operator", "client")
roles = st.sampled_from(ROLES)
SECRET = new_secret("operator")


@pytest.mark.parametrize("role", ROLES)
def test_a_secret_names_the_product_its_kind_and_its_public_id(role):
    secret = new_secret(role)
    match = re.fullmatch(r"steelyard_(\w+?)_([0-9A-Za-z]{12})_[0-9A-Za-z]{49}", secret.text)
    assert match is not None
    assert match.groups() == (role, secret.public_id)


def test_a_secret_carries_256_random_bits(monkeypatch):
    monkeypatch.setattr(secrets, "randbits", lambda bits: (1 << bits) - 1)
    largest = new_secret("client").text.rpartition("_")[2][:43]
    digits = domain._DIGITS
    assert sum(digits.index(digit) * 62**place for place, digit in enumerate(reversed(largest))) == 2**256 - 1


def test_no_two_secrets_are_alike():
    assert len({new_secret("viewer").text for _ in range(1000)}) == 1000


def test_the_last_six_characters_are_the_crc32_of_the_others_in_base_62():
    head, tail = SECRET.text[:-6], SECRET.text[-6:]
    digits = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
    assert sum(digits.index(digit) * 62**place for place, digit in enumerate(reversed(tail))) == zlib.crc32(
        head.encode()
    )


def test_the_public_id_is_read_back():
    assert public_id_of(SECRET.text) == SECRET.public_id


@given(place=st.integers(0, len(SECRET.text) - 1), character=st.characters(codec="ascii"))
def test_any_one_wrong_character_is_noticed(place, character):
    """A CRC32 finds every change within 32 bits, and so every change of four characters in a row."""
    typed = SECRET.text[:place] + character + SECRET.text[place + 1 :]
    assert (public_id_of(typed) is None) == (typed != SECRET.text)


@given(place=st.integers(0, len(SECRET.text) - 2))
def test_two_exchanged_characters_are_noticed(place):
    text = SECRET.text
    typed = text[:place] + text[place + 1] + text[place] + text[place + 2 :]
    assert (public_id_of(typed) is None) == (typed != text)


@given(st.text())
def test_no_other_text_is_a_secret(text):
    assert public_id_of(text) is None


@pytest.mark.parametrize("text", [SECRET.text + "\n", " " + SECRET.text, SECRET.text + "0", SECRET.text[:-1], ""])
def test_a_secret_is_the_whole_text(text):
    assert public_id_of(text) is None


def test_what_is_stored_is_the_sha256_of_the_text():
    assert SECRET.sha256 == sha256_of_secret(SECRET.text) == hashlib.sha256(SECRET.text.encode()).hexdigest()


def test_a_secret_is_right_for_its_own_hash_only():
    assert is_secret(SECRET.text, stored_sha256=SECRET.sha256)
    assert not is_secret(SECRET.text, stored_sha256=new_secret("operator").sha256)
    assert not is_secret(SECRET.text, stored_sha256=None)


@pytest.mark.parametrize("stored", [SECRET.sha256, None])
def test_an_unknown_id_is_compared_as_a_known_one_is(monkeypatch, stored):
    compared = []
    real = hmac.compare_digest

    def note(sent: str, kept: str) -> bool:
        compared.append((len(sent), len(kept)))
        return real(sent, kept)

    monkeypatch.setattr(hmac, "compare_digest", note)
    is_secret(SECRET.text, stored_sha256=stored)
    assert compared == [(64, 64)]


def test_even_the_hash_that_stands_for_none_is_no_secrets():
    assert not is_secret(SECRET.text, stored_sha256="0" * 64)


@pytest.mark.parametrize(
    ("text", "public_id"),
    [
        (SECRET.text, SECRET.public_id),
        (f" {SECRET.text}\n", SECRET.public_id),
        (SECRET.text[:40], SECRET.public_id),
        (f"{SECRET.public_id}\n", SECRET.public_id),
        ("steelyard_x", "steelyard_x"),
    ],
)
def test_an_operator_may_name_a_credential_by_its_secret_or_its_public_id(text, public_id):
    assert public_id_in(text) == public_id
