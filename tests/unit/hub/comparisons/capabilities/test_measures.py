from __future__ import annotations

import math
import random

import pytest
import pytrec_eval
from hypothesis import given
from hypothesis import strategies as st

from steelyard.hub.comparisons.capabilities.measures import (
    average_precision,
    hit,
    judged,
    ndcg,
    recall,
    reciprocal_rank,
    unjudged,
)

EVERY = (ndcg, recall, reciprocal_rank, average_precision, hit, judged)
CHUNKS = [f"c{number}" for number in range(12)]
RANKINGS = st.lists(st.sampled_from(CHUNKS), unique=True)
LABELS = st.dictionaries(st.sampled_from(CHUNKS), st.integers(1, 4), min_size=1)
K = st.integers(1, 15)


def test_ndcg_weighs_grades_by_rank():
    labels = {"a": 3, "b": 2, "c": 1}
    found = ndcg(["x", "b", "a"], labels=labels, k=3)
    assert found == pytest.approx((2 / math.log2(3) + 3 / 2) / (3 + 2 / math.log2(3) + 1 / 2))


def test_ndcg_has_a_linear_gain():
    assert ndcg(["low"], labels={"high": 4, "low": 1}, k=1) == 1 / 4


def test_the_ideal_ranking_is_cut_at_k_too():
    assert ndcg(["a", "b"], labels=dict.fromkeys("abcde", 1), k=2) == 1


def test_repeated_grades_may_stand_in_any_order():
    labels = {"a": 2, "b": 2, "c": 1}
    assert ndcg(["b", "a", "c"], labels=labels, k=3) == ndcg(["a", "b", "c"], labels=labels, k=3) == 1


def test_recall_and_average_precision_are_over_all_relevant_chunks():
    labels = dict.fromkeys("abcd", 1)
    assert recall(["a", "x", "b"], labels=labels, k=3) == 1 / 2
    assert average_precision(["a", "x", "b"], labels=labels, k=3) == pytest.approx((1 + 2 / 3) / 4)
    assert recall(["a", "b"], labels=labels, k=2) == average_precision(["a", "b"], labels=labels, k=2) == 1 / 2


def test_the_reciprocal_rank_is_of_the_first_relevant_chunk():
    assert reciprocal_rank(["x", "y", "a", "b"], labels={"a": 1, "b": 3}, k=4) == 1 / 3


@pytest.mark.parametrize("measure", [ndcg, recall, reciprocal_rank, average_precision, hit])
def test_a_relevant_chunk_beyond_k_does_not_count(measure):
    assert measure(["x", "y", "a"], labels={"a": 1}, k=2) == 0
    assert measure(["x", "y", "a"], labels={"a": 1}, k=3) > 0


@pytest.mark.parametrize("measure", EVERY)
def test_an_empty_ranking_is_worth_nothing(measure):
    assert measure([], labels={"a": 1}, k=5) == 0


@pytest.mark.parametrize("measure", EVERY)
def test_a_short_ranking_is_measured_as_it_is(measure):
    assert measure(["a"], labels={"a": 1}, k=100) == 1


def test_judged_is_the_share_of_what_was_retrieved_within_k():
    labels = {"a": 1, "b": 1}
    assert judged(["a"], labels=labels, k=10) == 1
    assert judged(["a", "x", "y", "b"], labels=labels, k=3) == 1 / 3


def test_unjudged_chunks_are_told_best_first_and_cut_at_k():
    assert unjudged(["z", "a", "x", "b", "y"], labels={"a": 1, "b": 1}, k=4) == ["z", "x"]
    assert unjudged([], labels={"a": 1}, k=4) == []


@given(RANKINGS, LABELS, K)
def test_every_measure_is_from_0_to_1_and_sees_k_chunks_only(ranking, labels, k):
    for measure in EVERY:
        found = measure(ranking, labels=labels, k=k)
        assert 0 <= found <= 1
        assert found == measure(ranking[:k], labels=labels, k=k)


@given(LABELS, K)
def test_the_best_ranking_is_worth_1(labels, k):
    best = sorted(labels, key=lambda chunk: -labels[chunk])
    for measure in (ndcg, reciprocal_rank, hit, judged):
        assert measure(best, labels=labels, k=k) == 1
    assert recall(best, labels=labels, k=k) == average_precision(best, labels=labels, k=k) == min(k / len(labels), 1)


@given(RANKINGS, LABELS, K)
def test_a_relevant_chunk_that_moves_up_never_lowers_a_measure(ranking, labels, k):
    for place in range(1, len(ranking)):
        above, here = ranking[place - 1 : place + 1]
        if labels.get(here, 0) >= labels.get(above, 0):
            moved = [*ranking[: place - 1], here, above, *ranking[place + 1 :]]
            for measure in EVERY:
                assert measure(moved, labels=labels, k=k) >= measure(ranking, labels=labels, k=k) - 1e-15


@given(RANKINGS, LABELS, K)
def test_hit_recall_and_reciprocal_rank_agree_on_whether_anything_was_found(ranking, labels, k):
    found = {
        measure(ranking, labels=labels, k=k) > 0 for measure in (ndcg, recall, reciprocal_rank, average_precision, hit)
    }
    assert len(found) == 1


# trec_eval is the oracle. It sorts by score as float32 and drops a query without results, so the scores here are small
# whole numbers that fall with the rank, and no ranking is empty.


def random_query(source: random.Random) -> tuple[list[str], dict[str, int]]:
    chunks = [f"c{number}" for number in range(source.randint(1, 40))]
    retrieved = source.sample(chunks, source.randint(1, len(chunks)))
    relevant = source.sample(chunks, source.randint(1, len(chunks)))
    return retrieved, {chunk: source.randint(1, 4) for chunk in relevant}


def by_trec_eval(queries, *, k: int, names: set[str], cut: bool):
    qrel = {str(number): labels for number, (_, labels) in enumerate(queries)}
    runs = [ranking[:k] if cut else ranking for ranking, _ in queries]
    run = {
        str(number): {chunk: float(len(ranking) - place) for place, chunk in enumerate(ranking)}
        for number, ranking in enumerate(runs)
    }
    return pytrec_eval.RelevanceEvaluator(qrel, names).evaluate(run)


@pytest.mark.parametrize("k", [1, 2, 3, 5, 10, 20, 100])
def test_trec_eval_measures_the_same(k):
    source = random.Random(f"rankings at {k}")
    queries = [random_query(source) for _ in range(1000)]
    cut_at = {f"ndcg_cut.{k}", f"recall.{k}", f"map_cut.{k}", f"success.{k}"}
    whole = by_trec_eval(queries, k=k, names=cut_at, cut=False)
    cut = by_trec_eval(queries, k=k, names={"recip_rank"}, cut=True)
    for number, (ranking, labels) in enumerate(queries):
        one = whole[str(number)]
        expected = [one[f"ndcg_cut_{k}"], one[f"recall_{k}"], one[f"map_cut_{k}"], one[f"success_{k}"]]
        found = [measure(ranking, labels=labels, k=k) for measure in (ndcg, recall, average_precision, hit)]
        assert found == pytest.approx(expected, abs=1e-12)
        assert reciprocal_rank(ranking, labels=labels, k=k) == pytest.approx(cut[str(number)]["recip_rank"], abs=1e-12)
