from __future__ import annotations

import math
from itertools import permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.decide.makers import options, row

from steelyard.decide.domain.arithmetic import argmax, softmax
from steelyard.decide.domain.errors import InvalidRequest
from steelyard.decide.domain.orderings import Decision, combine, expand, parse_method

# Sums of a few of these are exact in double precision, so an exact claim can be tested exactly.
dyadic = st.integers(-(2**15), 2**15).map(lambda step: step / 2**10)


def decision(count: int, method: str = "rotations") -> Decision:
    return Decision(row=row(id="d", options=options(*(f"Option {i}" for i in range(count)))), method=method)


def results_of(made: Decision, logit_of) -> list[dict]:
    """Give what a scorer would, where *logit_of* tells an option's logit from its id and its place."""
    results = []
    for ordering in expand(made):
        logits = [logit_of(identifier, place) for place, identifier in enumerate(ordering.option_ids)]
        results.append(
            {
                "id": ordering.id,
                "option_ids": ordering.option_ids,
                "probabilities": softmax(logits),
                "option_logits": logits,
            }
        )
    return results


def combined(made: Decision, logit_of) -> dict:
    own = combine(made, results_of(made, logit_of))["combined"]
    assert isinstance(own, dict)
    return own


@pytest.mark.parametrize(("value", "method"), [(None, "none"), ("none", "none"), ("rotations", "rotations")])
def test_a_null_method_means_none(value, method):
    assert parse_method(value, option_count=16) == method


@pytest.mark.parametrize("value", ["ALL", "", 1, True, ["all"], {"all": 1}])
def test_an_unknown_method_is_refused(value):
    with pytest.raises(InvalidRequest, match=r'^orderings must be "none", "rotations" or "all"$'):
        parse_method(value, option_count=2)


def test_all_orderings_are_for_four_options_at_most():
    assert parse_method("all", option_count=4) == "all"
    with pytest.raises(InvalidRequest, match=r'"all" takes at most 4 options, this decision has 5; use "rotations"'):
        parse_method("all", option_count=5)


def test_a_plain_decision_is_its_row():
    made = decision(3, "none")
    assert expand(made) == [made.row]
    assert not made.is_averaged


def test_rotations_are_the_cyclic_shifts_with_the_callers_order_first():
    rows = expand(decision(3))
    assert [row.id for row in rows] == ["d#o0", "d#o1", "d#o2"]
    assert [row.option_ids for row in rows] == [["o0", "o1", "o2"], ["o1", "o2", "o0"], ["o2", "o0", "o1"]]


def test_all_are_the_permutations_with_the_callers_order_first():
    rows = expand(decision(4, "all"))
    assert [row.id for row in rows] == [f"d#o{k}" for k in range(24)]
    assert rows[0].option_ids == ["o0", "o1", "o2", "o3"]
    assert {tuple(row.option_ids) for row in rows} == set(permutations(["o0", "o1", "o2", "o3"]))


def test_an_ordering_changes_nothing_but_id_and_options():
    made = decision(2)
    for ordering in expand(made):
        assert (ordering.state, ordering.question) == (made.row.state, made.row.question)


@pytest.mark.parametrize("method", ["none", "rotations", "all"])
@pytest.mark.parametrize("count", [2, 3, 4])
def test_rows_are_counted_as_they_are_built(method, count):
    assert decision(count, method).row_count == len(expand(decision(count, method)))


def test_counting_builds_nothing():
    assert decision(16, "all").row_count == math.factorial(16)


@given(st.lists(dyadic, min_size=2, max_size=8), st.data())
def test_rotations_cancel_an_additive_position_bias(logits, data):
    check_bias_cancels(decision(len(logits)), logits, data)


@given(st.lists(dyadic, min_size=2, max_size=4), st.data())
def test_all_orderings_cancel_an_additive_position_bias(logits, data):
    check_bias_cancels(decision(len(logits), "all"), logits, data)


def check_bias_cancels(made: Decision, logits: list[float], data) -> None:
    bias = data.draw(st.lists(dyadic, min_size=len(logits), max_size=len(logits)))
    of = dict(zip(made.row.option_ids, logits, strict=True))
    own = combined(made, lambda identifier, place: of[identifier] + bias[place])
    assert own["top"] == made.row.option_ids[argmax(logits)]
    assert own["probabilities"] == pytest.approx(softmax(logits), rel=1e-9, abs=1e-300)
    # Exactly: options with equal logits end up equal to the last bit, whatever the bias.
    by_logit: dict[float, set[float]] = {}
    for logit, probability in zip(logits, own["probabilities"], strict=True):
        by_logit.setdefault(logit, set()).add(probability)
    assert all(len(probabilities) == 1 for probabilities in by_logit.values())


@given(st.lists(st.floats(-30, 30, width=32), min_size=3, max_size=3), st.floats(-30, 30, width=32))
def test_a_bias_for_a_letter_does_not_decide_between_equal_options(bias, logit):
    own = combined(decision(3, "all"), lambda _identifier, place: logit + bias[place])
    assert own["probabilities"] == pytest.approx([1 / 3] * 3)
    assert own["top"] == "o0"


@given(st.lists(st.lists(st.floats(-30, 30, width=32), min_size=3, max_size=3), min_size=3, max_size=3))
def test_the_combined_probabilities_are_the_renormalised_mean_log_softmax(table):
    made = decision(3)
    results = results_of(made, lambda identifier, place: table[int(identifier[1])][place])
    means = []
    for identifier in made.row.option_ids:
        logs = []
        for result in results:
            logits = dict(zip(result["option_ids"], result["option_logits"], strict=True))
            logs.append(logits[identifier] - math.log(math.fsum(map(math.exp, logits.values()))))
        means.append(sum(logs) / len(logs))
    own = combine(made, results)["combined"]
    assert isinstance(own, dict)
    assert own["probabilities"] == pytest.approx(softmax(means), rel=1e-9)


def test_an_averaged_answer_has_the_contracts_keys_and_its_orderings_unchanged():
    made = decision(3)
    results = results_of(made, lambda identifier, place: int(identifier[1]) - place)
    answer = combine(made, results)
    assert list(answer) == ["id", "option_ids", "combined", "orderings"]
    assert (answer["id"], answer["option_ids"]) == ("d", ["o0", "o1", "o2"])
    assert answer["orderings"] == results
    own = answer["combined"]
    assert isinstance(own, dict)
    assert list(own) == ["method", "orderings", "probabilities", "top", "agreement", "spread"]
    assert (own["method"], own["orderings"]) == ("rotations", 3)


def test_agreement_is_the_share_of_orderings_whose_own_top_is_the_overall_one():
    # The first letter wins by 5, and o2 stands there in one ordering of three.
    own = combined(decision(3), lambda identifier, place: {"o2": 1.0}.get(identifier, 0.0) + (5.0 if place == 0 else 0))
    assert own["top"] == "o2"
    assert own["agreement"] == 1 / 3
    own = combined(decision(3), lambda identifier, _place: {"o1": 1.0}.get(identifier, 0.0))
    assert (own["top"], own["agreement"]) == ("o1", 1.0)


def test_the_spread_is_the_least_and_the_greatest_native_probability_of_each_option():
    made = decision(2)
    results = results_of(made, lambda identifier, place: 1.0 if (identifier, place) == ("o0", 0) else 0.0)
    high, even = softmax([1.0, 0.0]), softmax([0.0, 0.0])
    own = combine(made, results)["combined"]
    assert isinstance(own, dict)
    assert own["spread"] == {"o0": [even[0], high[0]], "o1": [high[1], even[1]]}
    assert list(own["spread"]) == ["o0", "o1"]


def test_an_overall_tie_goes_to_the_callers_earlier_option():
    own = combined(decision(3), lambda identifier, _place: 0.0 if identifier == "o0" else 0.7)
    assert own["top"] == "o1"
    assert own["probabilities"][1] == own["probabilities"][2]


def test_a_tie_within_an_ordering_goes_to_the_callers_earlier_option():
    """In the second ordering o1 stands before o0, and still o0 is its top."""
    own = combined(decision(2), lambda _identifier, _place: 0.25)
    assert (own["top"], own["agreement"]) == ("o0", 1.0)


def test_options_with_empty_ids_are_combined_too():
    made = decision(2)
    empty = Decision(row=row(options=(made.row.options[0].__class__("", "x"), made.row.options[1])), method="rotations")
    assert combined(empty, lambda identifier, _place: 1.0 if identifier == "" else 0.0)["top"] == ""
