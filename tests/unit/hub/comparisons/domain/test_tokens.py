"""The claim token: nobody has it by chance, and of it only a hash is kept."""

from __future__ import annotations

import hashlib
import re

from hypothesis import given
from hypothesis import strategies as st

from steelyard.hub.comparisons.domain import tokens

TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=200)


def test_a_token_has_its_prefix_and_256_bits():
    assert re.fullmatch(r"steelyard_claim_[A-Za-z0-9_-]{43}", tokens.new_token())


def test_no_two_tokens_are_the_same():
    assert len({tokens.new_token() for _ in range(1000)}) == 1000


def test_what_is_kept_of_a_token_is_its_sha256():
    assert tokens.token_sha256("abc") == hashlib.sha256(b"abc").hexdigest()


@given(TEXTS, TEXTS)
def test_a_token_is_the_one_with_its_hash_and_no_other_is(token, other):
    kept = tokens.token_sha256(token)
    assert tokens.is_token(token, kept_sha256=kept)
    assert tokens.is_token(other, kept_sha256=kept) == (other == token)


@given(TEXTS)
def test_no_token_is_right_where_none_was_given_or_its_hash_was_cleared(token):
    assert not tokens.is_token(token, kept_sha256=None)


def test_a_cleared_hash_is_not_taken_for_any_hash(monkeypatch):
    monkeypatch.setattr(tokens, "token_sha256", lambda _token: "0" * 64)
    assert not tokens.is_token("whatever", kept_sha256=None)
