"""Whether a result is one of this comparison: its cases, and the gateway requests that it names for them."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from steelyard.hub.comparisons.domain.capability import LEGS, Capability, Leg, Outcome
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
    ResultRefused,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from datetime import datetime
    from uuid import UUID

    from steelyard.hub.comparisons.domain.comparison import Comparison
    from steelyard.hub.suites.domain import Case

INPUT_TYPE = "query"
UNKNOWN_CASE = "*"


@dataclass(frozen=True, kw_only=True)
class Report:
    """One leg as reported: the outcome of each case, and the public id of the gateway request for it."""

    outcomes: tuple[Outcome, ...]
    requests: Mapping[UUID, str]


@dataclass(frozen=True, kw_only=True)
class LoggedCall:
    """One row of the gateway's log; *is_evidence* where a comparison has it already."""

    row_id: int
    request_id: str
    service_client_id: UUID
    route_id: UUID
    deployment_id: UUID
    capability: str
    input_type: str
    input_sha256: str
    input_count: int
    started_at: datetime
    completed_at: datetime | None
    status: str
    latency_ms: float | None
    is_evidence: bool


class _Fault(NamedTuple):
    kind: type[ResultRefused]
    place: str


def fault_of(
    comparison: Comparison,
    legs: Mapping[Leg, Report],
    *,
    cases: Sequence[Case],
    calls: Mapping[str, LoggedCall],
    capability: Capability,
    now: datetime,
) -> ResultRefused | None:
    """Return what is wrong with a result, None where nothing is; *calls* are the log's rows by public id.

    The kind of the first fault, current leg first and cases in the suite's order, is the error's.
    """
    faults = [fault for leg in LEGS for fault in _cases(leg, legs[leg], cases)]
    if not faults:
        rules = _Rules(comparison, legs, calls, capability, now)
        faults = [fault for leg in LEGS for fault in rules.faults_in(leg, cases)]
    if not faults:
        return None
    kind = faults[0].kind
    places = [fault.place for fault in faults if fault.kind is kind]
    return kind(places, others=len(faults) - len(places))


def _cases(leg: Leg, report: Report, cases: Sequence[Case]) -> Iterator[_Fault]:
    wanted = {case.case_id for case in cases}
    counts = Counter(outcome.case_id for outcome in report.outcomes)
    if counts != Counter(wanted):
        yield _Fault(CasesMismatch, f"{leg}.results")
    if not set(report.requests) <= wanted:
        yield _Fault(CasesMismatch, f"{leg}_gateway_requests.{UNKNOWN_CASE}")


class _Rules:
    def __init__(
        self,
        comparison: Comparison,
        legs: Mapping[Leg, Report],
        calls: Mapping[str, LoggedCall],
        capability: Capability,
        now: datetime,
    ) -> None:
        self._comparison = comparison
        self._legs = legs
        self._calls = calls
        self._capability = capability
        self._now = now
        self._uses = Counter(request_id for report in legs.values() for request_id in report.requests.values())

    def faults_in(self, leg: Leg, cases: Sequence[Case]) -> Iterator[_Fault]:
        report = self._legs[leg]
        failed = {outcome.case_id for outcome in report.outcomes if outcome.error_code is not None}
        for case in cases:
            kind = self._fault(
                leg, case, request_id=report.requests.get(case.case_id), is_failed=case.case_id in failed
            )
            if kind is not None:
                yield _Fault(kind, f"{leg}_gateway_requests.{case.case_id}")

    def _fault(self, leg: Leg, case: Case, *, request_id: str | None, is_failed: bool) -> type[ResultRefused] | None:
        if request_id is None:
            return None if is_failed else EvidenceMissing
        call = self._calls.get(request_id)
        if call is None or call.service_client_id != self._comparison.intent.consumer_client_id:
            return EvidenceUnknown
        if call.is_evidence or self._uses[request_id] > 1:
            return EvidenceReused
        if not self._is_on_route(leg, call):
            return EvidenceWrongRoute
        return self._fault_of_call(case, call)

    def _is_on_route(self, leg: Leg, call: LoggedCall) -> bool:
        pinned = self._comparison.pins[leg]
        return (
            str(call.deployment_id) == pinned["deployment"]["id"]
            and str(call.route_id) == pinned["route"]["id"]
            and call.capability == self._capability.name
        )

    def _fault_of_call(self, case: Case, call: LoggedCall) -> type[ResultRefused] | None:
        if call.status != "completed":
            return EvidenceNotCompleted
        if call.input_count != 1:
            return EvidenceNotSingle
        if call.input_type != INPUT_TYPE or call.input_sha256 != self._capability.input_sha256(case):
            return EvidenceWrongInput
        return None if self._is_within_claim(call) else EvidenceOutsideClaim

    def _is_within_claim(self, call: LoggedCall) -> bool:
        claimed_at, deadline_at = self._comparison.claimed_at, self._comparison.deadline_at
        if claimed_at is None or deadline_at is None or call.completed_at is None:
            return False
        return claimed_at <= call.started_at and call.completed_at <= min(self._now, deadline_at)
