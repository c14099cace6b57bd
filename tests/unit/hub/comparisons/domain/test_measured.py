from __future__ import annotations

import uuid

import pytest
from tests.unit.hub.comparisons.makers import Decisions, cases, failed, leg, outcome

from steelyard.hub.comparisons.domain.measured import ReportedLeg, measure_leg, metrics_of

RIGHT = {"option": "right", "probability": 0.9}
WRONG = {"option": "wrong", "probability": 0.9}


def measure(reported: ReportedLeg, count: int, capability: Decisions | None = None):
    return measure_leg(capability or Decisions(), cases(count), reported, settings={})


def test_a_failed_and_a_missing_case_count_as_the_worst_of_each_metric():
    measured = measure(leg([RIGHT, failed(1), None]), 3)
    assert list(measured.values.values()) == [(0.01, 1.0, 0.0), (1.0, 0.0, 1.0), (1.0, 0.0, 1.0)]
    assert measured.error_count == 2
    assert measured.passed == {uuid.UUID(int=0)}


def test_an_answer_beside_an_error_code_does_not_count():
    measured = measure(leg([outcome(0, RIGHT, error_code="LATE")]), 1)
    assert (measured.error_count, measured.passed) == (1, frozenset())


def test_latencies_are_those_of_answered_cases_of_the_suite():
    reported = leg([outcome(0, RIGHT, latency_ms=5), outcome(1, RIGHT, latency_ms=9), failed(2), outcome(7, RIGHT)])
    gateway = {uuid.UUID(int=number): latency_ms for number, latency_ms in ((0, 3.0), (2, 100.0), (7, 200.0))}
    measured = measure(ReportedLeg(outcomes=reported.outcomes, gateway_latency_ms=gateway), 3)
    assert measured.summary() == {
        "error_count": 1,
        "latency_ms": {"reported": {"p50": 5, "p95": 9}, "gateway": {"p50": 3.0, "p95": 3.0}},
        "unjudged_count": 0,
    }


def test_a_leg_without_an_answer_has_no_latencies():
    summary = measure(leg([failed(0), None]), 2).summary()
    assert summary["latency_ms"]["reported"] == summary["latency_ms"]["gateway"] == {"p50": None, "p95": None}


def test_a_title_without_k_stays_as_it_is():
    assert [one.title for one in metrics_of(Decisions(), {})] == ["Brier score", "accuracy", "error rate"]


@pytest.mark.parametrize("numbers", [(0.5,), (0.5, 1.1), (0.5, -0.1), (float("nan"), 0.5)])
def test_numbers_that_break_the_port_s_promise_are_refused(numbers):
    class Broken(Decisions):
        def measure(self, case, answer, *, settings):
            return numbers

    with pytest.raises(ValueError, match="not 2 numbers from 0 to 1"):
        measure(leg([RIGHT]), 1, Broken())
