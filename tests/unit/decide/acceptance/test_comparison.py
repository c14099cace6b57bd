from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.decide.makers import by_id, prediction

from steelyard.decide.acceptance.comparison import Flip, accuracy, compare, recommended_cap_gib
from steelyard.decide.domain.arithmetic import softmax

_rows = st.lists(st.tuples(*[st.lists(st.floats(-50, 50), min_size=3, max_size=3)] * 2), min_size=1, max_size=8)


def passes(rows):
    return (
        by_id(*(prediction(*softmax(row[side]), id=f"r{i}", logits=tuple(row[side])) for i, row in enumerate(rows)))
        for side in (0, 1)
    )


@given(_rows)
def test_a_gap_is_the_largest_difference_and_the_same_both_ways(rows):
    first, second = passes(rows)
    comparison = compare(first, second)
    expected = [
        max(abs(p - q) for p, q in zip(first[i].probabilities, second[i].probabilities, strict=True)) for i in first
    ]
    assert list(comparison.gaps) == expected
    assert comparison.largest_gap == max(expected)
    assert compare(second, first).gaps == comparison.gaps
    assert first[comparison.widest_row].probabilities is not None
    assert comparison.gaps[comparison.ids.index(comparison.widest_row)] == comparison.largest_gap


@given(_rows)
def test_agreement_counts_the_rows_that_do_not_flip(rows):
    first, second = passes(rows)
    comparison = compare(first, second)
    same = sum(first[i].top == second[i].top for i in first)
    assert (comparison.same_top, comparison.rows) == (same, len(rows))
    assert comparison.agreement == same / len(rows)
    assert [flip.id for flip in comparison.flips] == [i for i in first if first[i].top != second[i].top]


@given(_rows)
def test_a_pass_agrees_with_itself(rows):
    first, _ = passes(rows)
    comparison = compare(first, first)
    assert (comparison.largest_gap, comparison.agreement, comparison.flips) == (0.0, 1.0, ())
    assert comparison.equal_prompts == len(rows)


def test_options_are_matched_by_their_ids_and_not_by_their_places():
    one = prediction(0.7, 0.3, option_ids=("yes", "no"))
    other = prediction(0.3, 0.7, option_ids=("no", "yes"))
    comparison = compare(by_id(one), by_id(other))
    assert (comparison.largest_gap, comparison.flips) == (0.0, ())


def test_rows_are_matched_by_their_ids_and_keep_the_first_passes_order():
    a, b = prediction(0.7, 0.3, id="a"), prediction(0.2, 0.8, id="b")
    comparison = compare(by_id(b, a), by_id(a, b))
    assert (comparison.ids, comparison.largest_gap) == (("b", "a"), 0.0)


def test_a_flip_says_what_it_was_by_which_lead_and_what_it_became():
    comparison = compare(by_id(prediction(0.6, 0.4)), by_id(prediction(0.1, 0.9)))
    assert comparison.flips == (Flip(id="r1", before="o0", after="o1", lead=2.0),)


def test_a_tie_that_breaks_the_other_way_is_a_flip_but_a_tie_itself_is_none():
    tie = by_id(prediction(0.5, 0.5))
    assert compare(tie, by_id(prediction(0.6, 0.4))).flips == ()
    assert len(compare(tie, by_id(prediction(0.4, 0.6))).flips) == 1


@pytest.mark.parametrize("place", [0, 1])
@pytest.mark.parametrize("bad", [math.nan, math.inf])
@pytest.mark.parametrize("side", [0, 1])
def test_a_number_that_is_not_finite_is_never_hidden_by_a_larger_gap(side, bad, place):
    fine = by_id(prediction(0.9, 0.1, id="a"), prediction(0.5, 0.5, id="b"), prediction(0.9, 0.1, id="c"))
    spoilt = dict(fine)
    spoilt["b"] = prediction(*((bad, 0.5) if place == 0 else (0.5, bad)), id="b")
    spoilt["c"] = prediction(0.1, 0.9, id="c")
    comparison = compare(*((spoilt, fine) if side == 0 else (fine, spoilt)))
    assert math.isnan(comparison.largest_gap)
    assert comparison.widest_row == "b"
    assert [flip.id for flip in comparison.flips] == ["b", "c"]


def test_prompts_are_counted_as_equal_by_their_hashes():
    one = by_id(prediction(0.9, 0.1, id="a"), prediction(0.9, 0.1, id="b"))
    other = by_id(prediction(0.9, 0.1, id="a"), prediction(0.9, 0.1, id="b", prompt_sha256="other"))
    assert compare(one, other).equal_prompts == 1


def test_accuracy_is_over_the_labelled_rows_and_a_missing_answer_is_a_wrong_one():
    rows = by_id(prediction(0.9, 0.1, id="a"), prediction(0.9, 0.1, id="b"), prediction(0.9, 0.1, id="c"))
    assert accuracy(rows, {"a": "o0", "b": "o1"}) == 0.5
    assert accuracy(rows, {"a": "o0", "absent": "o0"}) == 0.5
    assert accuracy(rows, {}) is None


@given(st.integers(1, 2**40))
def test_the_cap_is_the_fewest_quarters_of_a_gib_that_hold_the_peak_and_a_twentieth(peak):
    cap = recommended_cap_gib(peak)
    assert (4 * cap) % 1 == 0
    assert int(cap * 2**30) * 100 >= peak * 105
    assert int((cap - 0.25) * 2**30) * 100 < peak * 105


def test_a_peak_of_eight_gib_is_capped_at_eight_and_a_half():
    assert recommended_cap_gib(8 * 2**30) == 8.5
