from __future__ import annotations

import pytest
from tests.unit.decide.makers import by_id, prediction

from steelyard.decide.acceptance.checks import CONTROL, NOISE, PARITY, SHARED, Check, Verdict
from steelyard.decide.acceptance.outcome import Outcome, Passes, accuracies, compare_passes, judge
from steelyard.decide.acceptance.predictions import Scored

MODEL = {"source": "m", "revision": None, "device": "cuda"}
TRUE = by_id(prediction(0.9, 0.1, id="a"), prediction(0.2, 0.8, id="b"))
ROTATED = by_id(prediction(0.1, 0.9, id="a"), prediction(0.8, 0.2, id="b"))
WITHOUT_B = by_id(TRUE["a"])
FAILURE = {"b": "out_of_memory"}


def passes(**changes) -> Passes:
    whole = {
        name: Scored(name, ROTATED if name == "shuffled" else TRUE, {})
        for name in ("first", "second", "shuffled", "shared")
    }
    return Passes(**(whole | changes))


def verdicts(own: Passes, reference=TRUE) -> dict[str, Verdict]:
    comparisons = compare_passes(own, reference)
    checks = judge(own, comparisons, model=MODEL, reference_model=MODEL, tolerance=0.0)
    return {check.name: check.verdict for check in checks}


def test_four_checks_are_judged_in_the_contracts_order():
    assert verdicts(passes()) == dict.fromkeys((PARITY, NOISE, CONTROL, SHARED), Verdict.PASSED)
    assert list(verdicts(passes())) == [PARITY, NOISE, CONTROL, SHARED]


@pytest.mark.parametrize(
    ("name", "failed"),
    [
        ("first", {PARITY, NOISE, CONTROL, SHARED}),
        ("second", {NOISE, SHARED}),
        ("shuffled", {CONTROL}),
        ("shared", {SHARED}),
    ],
)
def test_a_row_without_an_answer_fails_every_check_that_needs_it_and_no_other(name, failed):
    own = passes(**{name: Scored(name, WITHOUT_B, FAILURE)})
    assert {check for check, verdict in verdicts(own).items() if verdict is Verdict.FAILED} == failed
    assert set(compare_passes(own, TRUE)) == {PARITY, NOISE, CONTROL, SHARED} - failed


def test_parity_compares_the_reference_first_so_that_leads_are_its_own():
    reference = by_id(prediction(0.4, 0.6, id="a"), TRUE["b"])
    (flip,) = compare_passes(passes(), reference)[PARITY].flips
    assert (flip.before, flip.after) == ("o1", "o0")
    assert flip.lead == pytest.approx(2.0)


def test_a_control_that_agrees_fails():
    own = passes(shuffled=Scored("shuffled", TRUE, {}))
    assert verdicts(own)[CONTROL] is Verdict.FAILED


def test_accuracy_is_given_for_each_scorer():
    own = passes(shared=Scored("shared", WITHOUT_B, FAILURE))
    labels = {"a": "o0", "b": "o1"}
    assert accuracies(own, ROTATED, labels) == {"direct": 1.0, "shared": 0.5, "reference": 0.0}
    assert set(accuracies(own, ROTATED, {}).values()) == {None}


@pytest.mark.parametrize(("verdict", "is_failed"), [(v, v is Verdict.FAILED) for v in Verdict])
def test_one_failed_check_fails_the_run_and_nothing_else_does(verdict, is_failed):
    checks = (Check("x", Verdict.PASSED, ""), Check("y", verdict, ""))
    assert Outcome(checks=checks, comparisons={}, accuracy={}).is_failed is is_failed
