"""Publishing a result: read what it rests on, compute, then commit all of it in one transaction.

The metrics take longest and need no lock. All that they are computed from never changes: the suite, the pins and the
log's completed rows. The rest is checked again under the row's lock, as if nothing had been looked at before.
"""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from typing import TYPE_CHECKING

from steelyard.hub.comparisons import store
from steelyard.hub.comparisons.capabilities.known import CAPABILITIES
from steelyard.hub.comparisons.domain import evidence, protocol
from steelyard.hub.comparisons.domain.capability import LEGS, Leg
from steelyard.hub.comparisons.domain.eligibility import Rule
from steelyard.hub.comparisons.domain.measured import ReportedLeg
from steelyard.hub.comparisons.domain.published import Published, Result, Run
from steelyard.hub.comparisons.domain.summary import evaluate
from steelyard.hub.comparisons.service import Comparisons, Outcome, is_comparison_drifted
from steelyard.hub.suites import store as suites

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime
    from typing import Any
    from uuid import UUID

    from sqlalchemy import Connection

    from steelyard.hub.comparisons.domain.capability import Capability
    from steelyard.hub.comparisons.domain.comparison import Comparison
    from steelyard.hub.comparisons.domain.evidence import LoggedCall, Report
    from steelyard.hub.comparisons.domain.protocol import Verdict
    from steelyard.hub.comparisons.domain.summary import Evaluation
    from steelyard.hub.db.database import Database
    from steelyard.hub.principal import Actor
    from steelyard.hub.suites.domain import Case


@dataclass(frozen=True, kw_only=True)
class Reported:
    """A result as its consumer reported it; *sha256* is the call's digest."""

    token: str
    sha256: str
    pins_digest: str
    consumer_revision_sha256: str
    legs: Mapping[Leg, Report]


@dataclass(frozen=True, kw_only=True)
class _Grounds:
    """What a result is checked against and computed from."""

    comparison: Comparison
    cases: tuple[Case, ...]
    settings: dict[str, Any]
    calls: Mapping[str, LoggedCall]

    @property
    def capability(self) -> Capability:
        return CAPABILITIES[self.comparison.capability]


def publish(database: Database, comparison_id: UUID, reported: Reported, *, actor: Actor) -> Outcome:
    """Publish a result, or say why not; raises UnknownThing, or ResultRefused where the log has changed meanwhile."""
    while True:
        with database.read() as connection:
            grounds = _grounds(connection, comparison_id, reported)
            verdict = _verdict(connection, grounds.comparison, reported, grounds, now=database.now(connection))
        evaluation = _evaluation(grounds, reported) if _completes(grounds.comparison, verdict) else None
        with database.write() as connection:
            comparisons = Comparisons(connection, actor, lambda: database.now(connection))
            outcome = _commit(comparisons, comparison_id, reported, grounds, evaluation)
        if outcome is not None:
            return outcome


def _grounds(connection: Connection, comparison_id: UUID, reported: Reported) -> _Grounds:
    comparison = store.get(connection, comparison_id)
    revision = suites.get_revision(connection, comparison.intent.suite_revision_id)
    request_ids = [request_id for leg in reported.legs.values() for request_id in leg.requests.values()]
    return _Grounds(
        comparison=comparison,
        cases=tuple(suites.cases_of(connection, revision.id)),
        settings=revision.retrieval_settings,
        calls=store.logged_calls(connection, request_ids),
    )


def _verdict(
    connection: Connection, comparison: Comparison, reported: Reported, grounds: _Grounds, *, now: datetime
) -> Verdict:
    return protocol.publish(
        comparison,
        protocol.Call(token=reported.token, now=now, sha256=reported.sha256),
        pins_digest=reported.pins_digest,
        is_drifted=is_comparison_drifted(connection, comparison),
        fault=evidence.fault_of(
            comparison,
            reported.legs,
            cases=grounds.cases,
            calls=grounds.calls,
            capability=grounds.capability,
            now=now,
        ),
        revision=reported.consumer_revision_sha256,
    )


def _completes(before: Comparison, verdict: Verdict) -> bool:
    """Tell whether the call itself completes the comparison, and does not repeat the one that did."""
    return verdict.refusal is None and before.is_active and verdict.after.status == "completed"


def _evaluation(grounds: _Grounds, reported: Reported) -> Evaluation:
    legs = {leg: _reported_leg(reported.legs[leg], grounds.calls) for leg in LEGS}
    return evaluate(
        grounds.capability,
        grounds.cases,
        legs,
        settings=grounds.settings,
        rule=Rule(**grounds.comparison.rule),
        seed=grounds.comparison.pins_digest,
    )


def _reported_leg(report: Report, calls: Mapping[str, LoggedCall]) -> ReportedLeg:
    took = {case_id: calls[request_id].latency_ms for case_id, request_id in report.requests.items()}
    return ReportedLeg(
        outcomes={outcome.case_id: outcome for outcome in report.outcomes},
        gateway_latency_ms={case_id: latency_ms for case_id, latency_ms in took.items() if latency_ms is not None},
    )


def _commit(
    comparisons: Comparisons,
    comparison_id: UUID,
    reported: Reported,
    grounds: _Grounds,
    evaluation: Evaluation | None,
) -> Outcome | None:
    """Decide under the row's lock and write; None where it would complete now, and would not a moment before."""
    connection = comparisons.connection
    before = store.get(connection, comparison_id, lock=True)
    verdict = _verdict(connection, before, reported, grounds, now=comparisons.clock())
    if not _completes(before, verdict):
        return comparisons.settle(before, verdict)
    if evaluation is None:
        return None
    store.insert_published(connection, _published(verdict.after, reported, grounds, evaluation))
    return comparisons.settle(before, verdict)


def _published(after: Comparison, reported: Reported, grounds: _Grounds, evaluation: Evaluation) -> Published:
    assert after.ended_at is not None  # noqa: S101  # It is completed.
    return Published(
        comparison_id=after.id,
        at=after.ended_at,
        runs={leg: _run(leg, after, reported.legs[leg], grounds, evaluation) for leg in LEGS},
        summary=evaluation.summary,
    )


def _run(leg: Leg, after: Comparison, report: Report, grounds: _Grounds, evaluation: Evaluation) -> Run:
    deployments = {"current": after.intent.current_deployment_id, "candidate": after.intent.candidate_deployment_id}
    return Run(
        id=uuid.uuid4(),
        deployment_id=deployments[leg],
        results=tuple(
            Result(
                outcome=outcome,
                metrics=evaluation.values[leg][outcome.case_id],
                row_id=_row_id(report.requests.get(outcome.case_id), grounds.calls),
            )
            for outcome in report.outcomes
        ),
    )


def _row_id(request_id: str | None, calls: Mapping[str, LoggedCall]) -> int | None:
    return None if request_id is None else calls[request_id].row_id
