from __future__ import annotations

import uuid
from datetime import UTC, datetime, timedelta, timezone

from hypothesis import given
from hypothesis import strategies as st

from steelyard.hub.suites.domain import Case, Content, Review, other_corpora, repeats

A, B = uuid.UUID(int=1), uuid.UUID(int=2)
CASE = Case(
    case_id=A,
    query=" q ",
    labels={"c": 1},
    critical=False,
    review=Review(reviewer="Ada", reviewed_at=datetime(2026, 11, 2, 9, 30, tzinfo=UTC)),
    label_provenance={"corpus_revision": "ab" * 32},
)


def content(*cases: Case, **settings: object) -> Content:
    return Content(retrieval_settings={"top_k": 1, **settings}, cases=cases)


def test_equal_moments_have_one_digest():
    there = CASE.review.reviewed_at.astimezone(timezone(timedelta(hours=5, minutes=30)))
    moved = Case(**{**vars(CASE), "review": Review(reviewer="Ada", reviewed_at=there)})
    assert content(moved).digest == content(CASE).digest


def test_the_settings_digest_is_of_the_settings_alone():
    assert content(CASE).retrieval_config_sha256 == content(CASE, CASE).retrieval_config_sha256
    assert content(CASE).retrieval_config_sha256 != content(CASE, x=1).retrieval_config_sha256


@given(st.lists(st.none() | st.integers(0, 5).map(lambda number: uuid.UUID(int=number))))
def test_each_repeat_is_found_with_its_first_place(ids):
    found = repeats(ids)
    assert [place for place, _ in found] == [n for n, i in enumerate(ids) if i is not None and i in ids[:n]]
    assert all(ids[place] == ids[first] and ids.index(ids[place]) == first for place, first in found)


@given(st.lists(st.none() | st.sampled_from("abc")))
def test_what_names_another_corpus_than_the_first_is_found(corpora):
    first = next((corpus for corpus in corpora if corpus), None)
    assert other_corpora(corpora) == [n for n, corpus in enumerate(corpora) if corpus and corpus != first]


def test_no_id_repeats_nothing():
    assert repeats([None, None, A, B, A]) == [(4, 2)]
