"""Whether a result is one of this comparison, and what each of its gateway requests must be."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.hub.comparisons.protocol_makers import CAPABILITY, CASES, INTENT, PENDING, T0, US, claimed, with_fields

from steelyard.hub.comparisons.domain import evidence
from steelyard.hub.comparisons.domain.capability import LEGS, Outcome
from steelyard.hub.comparisons.domain.evidence import LoggedCall, Report
from steelyard.hub.comparisons.domain.protocol import DEADLINE
from steelyard.hub.errors import (
    CasesMismatch,
    EvidenceMissing,
    EvidenceNotCompleted,
    EvidenceNotSingle,
    EvidenceOutsideClaim,
    EvidenceReused,
    EvidenceUnknown,
    EvidenceWrongInput,
    EvidenceWrongRoute,
)
from steelyard.hub.suites.domain import Case, Review

if TYPE_CHECKING:
    from steelyard.hub.comparisons.domain.comparison import Comparison
    from steelyard.hub.errors import ResultRefused

SECOND = timedelta(seconds=1)
CLAIMED = claimed()
ELSEWHERE = UUID(int=99)


def case(number: int) -> Case:
    return Case(
        case_id=UUID(int=number),
        query=f"Question {number}?",
        labels={"chunk-1": 1},
        critical=False,
        review=Review(reviewer="Ada", reviewed_at=T0),
        label_provenance={},
    )


SUITE = [case(number) for number in range(CASES)]


def outcome(number: int, **fields: Any) -> Outcome:
    return Outcome(**{"case_id": UUID(int=number), "answer": [], "latency_ms": 1.0, "error_code": None, **fields})


def request_id(leg: str, number: int) -> str:
    return f"{LEGS.index(leg) * 100 + number:032x}"


def logged(leg: str, number: int, **fields: Any) -> LoggedCall:
    """Return the log's row for a case's request, as good evidence has it, with the last fields instead."""
    return LoggedCall(**{
        "row_id": LEGS.index(leg) * 100 + number,
        "request_id": request_id(leg, number),
        "service_client_id": INTENT.consumer_client_id,
        "route_id": UUID(CLAIMED.pins[leg]["route"]["id"]),
        "deployment_id": UUID(CLAIMED.pins[leg]["deployment"]["id"]),
        "capability": CAPABILITY.name,
        "input_type": "query",
        "input_sha256": CAPABILITY.input_sha256(SUITE[number]),
        "input_count": 1,
        "started_at": T0 + SECOND,
        "completed_at": T0 + 2 * SECOND,
        "status": "completed",
        "latency_ms": 1.0,
        "is_evidence": False,
        **fields,
    })  # fmt: skip


LOG = {request_id(leg, number): logged(leg, number) for leg in LEGS for number in range(CASES)}
REPORT = {
    leg: Report(
        outcomes=tuple(outcome(number) for number in range(CASES)),
        requests={UUID(int=number): request_id(leg, number) for number in range(CASES)},
    )
    for leg in LEGS
}


def fault_of(
    report: dict | None = None,
    *,
    log: dict[str, LoggedCall] | None = None,
    comparison: Comparison = CLAIMED,
    now: datetime = T0 + 3 * SECOND,
) -> ResultRefused | None:
    return evidence.fault_of(
        comparison,
        report or REPORT,
        cases=SUITE,
        calls=LOG if log is None else log,
        capability=CAPABILITY,
        now=now,
    )


def with_log(leg: str, number: int, **fields: Any) -> dict[str, LoggedCall]:
    return {**LOG, request_id(leg, number): logged(leg, number, **fields)}


def with_leg(leg: str, **fields: Any) -> dict:
    return {**REPORT, leg: replace(REPORT[leg], **fields)}  # type: ignore[index]


def without(leg: str, number: int, *, error_code: str | None = None) -> dict:
    """Return the report with a case's request left out; the case failed where it has a code."""
    report = REPORT[leg]  # type: ignore[index]
    outcomes = tuple(outcome(each, error_code=error_code if each == number else None) for each in range(CASES))
    requests = {case_id: name for case_id, name in report.requests.items() if case_id != UUID(int=number)}
    return with_leg(leg, outcomes=outcomes, requests=requests)


def refused(fault: ResultRefused | None, kind: type[ResultRefused], *places: str) -> None:
    assert type(fault) is kind
    assert fault.places == places


def place(leg: str, number: int) -> str:
    return f"{leg}_gateway_requests.{UUID(int=number)}"


each_leg = pytest.mark.parametrize("leg", LEGS)


def test_a_whole_result_with_good_evidence_has_no_fault():
    assert fault_of() is None


@each_leg
def test_a_case_that_failed_needs_no_request_and_one_that_was_answered_does(leg):
    assert fault_of(without(leg, 1, error_code="TIMEOUT")) is None
    refused(fault_of(without(leg, 1)), EvidenceMissing, place(leg, 1))


@each_leg
def test_an_empty_ranking_without_a_code_was_answered(leg):
    assert REPORT[leg].outcomes[0].answer == []
    refused(fault_of(without(leg, 0)), EvidenceMissing, place(leg, 0))


@each_leg
def test_a_failed_case_s_request_is_held_to_the_same_rules(leg):
    failed = tuple(outcome(number, error_code="TIMEOUT" if number == 1 else None) for number in range(CASES))
    report = with_leg(leg, outcomes=failed)
    assert fault_of(report) is None
    refused(fault_of(report, log=with_log(leg, 1, input_count=2)), EvidenceNotSingle, place(leg, 1))


@each_leg
@pytest.mark.parametrize(
    "outcomes",
    [
        (outcome(0), outcome(1)),
        (outcome(0), outcome(1), outcome(2), outcome(2)),
        (outcome(0), outcome(1), outcome(7)),
        (outcome(0), outcome(0), outcome(0)),
        (),
    ],
    ids=["one too few", "one twice", "a foreign one", "one thrice", "none"],
)
def test_each_leg_has_exactly_one_result_per_case(leg, outcomes):
    refused(fault_of(with_leg(leg, outcomes=outcomes)), CasesMismatch, f"{leg}.results")


@each_leg
def test_results_may_come_in_any_order(leg):
    assert fault_of(with_leg(leg, outcomes=REPORT[leg].outcomes[::-1])) is None


@each_leg
def test_a_request_for_a_case_of_no_suite_is_refused_without_repeating_its_name(leg):
    requests = {**REPORT[leg].requests, ELSEWHERE: "0" * 32}
    refused(fault_of(with_leg(leg, requests=requests)), CasesMismatch, f"{leg}_gateway_requests.*")


@each_leg
@pytest.mark.parametrize(
    ("fields", "kind"),
    [
        ({"service_client_id": ELSEWHERE}, EvidenceUnknown),
        ({"is_evidence": True}, EvidenceReused),
        ({"route_id": ELSEWHERE}, EvidenceWrongRoute),
        ({"deployment_id": ELSEWHERE}, EvidenceWrongRoute),
        ({"capability": "semantic.decision@1"}, EvidenceWrongRoute),
        ({"status": "started", "completed_at": None}, EvidenceNotCompleted),
        ({"status": "failed"}, EvidenceNotCompleted),
        ({"input_count": 2}, EvidenceNotSingle),
        ({"input_count": 0}, EvidenceNotSingle),
        ({"input_type": "document"}, EvidenceWrongInput),
        ({"input_sha256": CAPABILITY.input_sha256(SUITE[2])}, EvidenceWrongInput),
        ({"started_at": T0 - US}, EvidenceOutsideClaim),
        ({"completed_at": T0 + 3 * SECOND + US}, EvidenceOutsideClaim),
        ({"completed_at": None}, EvidenceOutsideClaim),
    ],
    ids=lambda value: "-".join(value) if isinstance(value, dict) else value.__name__,
)
def test_a_request_must_be_one_for_its_case(leg, fields, kind):
    refused(fault_of(log=with_log(leg, 1, **fields)), kind, place(leg, 1))


@each_leg
def test_a_request_that_the_log_does_not_have_is_as_unknown_as_another_client_s(leg):
    log = {name: row for name, row in LOG.items() if name != request_id(leg, 1)}
    told = fault_of(log=log)
    refused(told, EvidenceUnknown, place(leg, 1))
    assert str(told) == str(fault_of(log=with_log(leg, 1, service_client_id=ELSEWHERE)))


def test_the_other_leg_s_request_is_no_evidence():
    swapped = {**REPORT, "candidate": replace(REPORT["candidate"], requests=REPORT["current"].requests)}
    fault = fault_of(swapped)
    assert type(fault) is EvidenceReused
    assert len(fault.places) == 2 * CASES


def test_one_request_for_two_cases_is_reused_in_both_places():
    requests = {**REPORT["current"].requests, UUID(int=1): request_id("current", 0)}
    fault = fault_of(with_leg("current", requests=requests))
    refused(fault, EvidenceReused, place("current", 0), place("current", 1))


def test_one_request_for_both_legs_is_reused_even_if_the_candidate_s_case_failed():
    requests = {**REPORT["candidate"].requests, UUID(int=1): request_id("current", 1)}
    failed = tuple(outcome(number, error_code="TIMEOUT") for number in range(CASES))
    fault = fault_of(with_leg("candidate", outcomes=failed, requests=requests))
    refused(fault, EvidenceReused, place("current", 1), place("candidate", 1))


@given(st.sampled_from(LEGS), st.integers(-3, 3), st.integers(-3, 3), st.sampled_from(["now", "deadline"]))
def test_the_server_s_times_lie_in_the_claim_to_the_microsecond(leg, started, completed, last):
    now = T0 + (3 * SECOND if last == "now" else DEADLINE + SECOND)
    end = min(now, T0 + DEADLINE)
    log = with_log(leg, 1, started_at=T0 + started * US, completed_at=end + completed * US)
    if started >= 0 and completed <= 0:
        assert fault_of(log=log, now=now) is None
    else:
        refused(fault_of(log=log, now=now), EvidenceOutsideClaim, place(leg, 1))


@pytest.mark.parametrize("missing", ["claimed_at", "deadline_at"])
def test_what_was_never_claimed_has_no_evidence(missing):
    assert type(fault_of(comparison=with_fields(CLAIMED, {missing: None}))) is EvidenceOutsideClaim
    assert type(fault_of(comparison=PENDING)) is EvidenceOutsideClaim


def test_the_first_fault_names_the_kind_and_the_others_are_counted():
    log = {
        **LOG,
        request_id("current", 2): logged("current", 2, input_count=2),
        request_id("candidate", 0): logged("candidate", 0, input_count=2),
        request_id("candidate", 1): logged("candidate", 1, status="failed"),
    }
    fault = fault_of(log=log)
    refused(fault, EvidenceNotSingle, place("current", 2), place("candidate", 0))
    assert "; faults of other kinds: 1" in str(fault)


def test_cases_are_looked_at_before_evidence():
    report = {**without("current", 0), "candidate": replace(REPORT["candidate"], outcomes=())}
    refused(fault_of(report), CasesMismatch, "candidate.results")


def test_faults_stand_in_the_suite_s_order_whatever_the_result_s():
    log = {**LOG, request_id("current", 0): logged("current", 0, status="failed")}
    requests = {
        UUID(int=2): request_id("current", 2), UUID(int=1): "f" * 32, UUID(int=0): request_id("current", 0),
    }  # fmt: skip
    refused(fault_of(with_leg("current", requests=requests), log=log), EvidenceNotCompleted, place("current", 0))
