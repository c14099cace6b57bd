"""The comparisons' rows. Every function works inside the caller's transaction; what was published is never changed."""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING, Any

from sqlalchemy import and_, exists, or_, select, update

from steelyard.hub.comparisons.domain.capability import LEGS, Leg
from steelyard.hub.comparisons.domain.comparison import Comparison, Intent
from steelyard.hub.comparisons.domain.evidence import LoggedCall
from steelyard.hub.comparisons.domain.published import CaseReport, LegReport, Published
from steelyard.hub.db.errors import ConstraintViolated, UniqueViolated
from steelyard.hub.db.locks import locked
from steelyard.hub.db.tables import (
    comparisons,
    evaluation_evidence,
    evaluation_results,
    evaluation_runs,
    evaluation_summaries,
    gateway_requests,
    suite_cases,
)
from steelyard.hub.errors import EvidenceReused, EvidenceUnknown, UnknownThing
from steelyard.hub.suites import store as suites

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from datetime import datetime
    from uuid import UUID

    from sqlalchemy import Connection, Row

_INTENT = tuple(field.name for field in fields(Intent))
_OWN = tuple(field.name for field in fields(Comparison) if field.name != "intent")
# What a call may change; everything else of a row is as it was made.
_CHANGING = (
    "status", "version", "claim_token_sha256", "claimed_at", "lease_expires_at", "deadline_at",
    "current_completed_cases", "candidate_completed_cases", "cancelled_version", "closing_sha256",
    "consumer_revision_sha256", "ended_at", "error_code",
)  # fmt: skip
_SHOWN = [comparisons.c[name] for name in (*_INTENT, *_OWN)]


def insert(connection: Connection, comparison: Comparison) -> None:
    """Add a comparison; raises UniqueViolated where its key is taken or its binding has an active one."""
    values = {name: getattr(comparison, name) for name in _OWN}
    with connection.begin_nested():
        connection.execute(comparisons.insert().values(**values, **vars(comparison.intent)))


def get(connection: Connection, comparison_id: UUID, *, lock: bool = False) -> Comparison:
    """Return the comparison with this id, its row locked where asked; raises UnknownThing."""
    query = select(*_SHOWN).where(comparisons.c.id == comparison_id)
    row = connection.execute(locked(query) if lock else query).first()
    if row is None:
        raise UnknownThing("No comparison has this id")
    return _comparison(row)


def with_key(connection: Connection, binding_id: UUID, *, key: str) -> Comparison | None:
    """Return the comparison of a binding with this idempotency key, or None."""
    query = select(*_SHOWN).filter_by(project_binding_id=binding_id, idempotency_key=key)
    row = connection.execute(query).first()
    return _comparison(row) if row else None


def active_of(connection: Connection, binding_id: UUID) -> Comparison | None:
    """Return the binding's active comparison, or None."""
    query = select(*_SHOWN).where(comparisons.c.project_binding_id == binding_id, comparisons.c.ended_at.is_(None))
    row = connection.execute(query).first()
    return _comparison(row) if row else None


def lock_active(connection: Connection) -> list[Comparison]:
    """Return every active comparison, locked."""
    query = select(*_SHOWN).where(comparisons.c.ended_at.is_(None)).order_by(comparisons.c.number)
    return [_comparison(row) for row in connection.execute(locked(query))]


def clear_tokens(connection: Connection) -> None:
    """Make every claim's token worth nothing; nothing may be claimed any more."""
    is_kept = comparisons.c.claim_token_sha256.is_not(None)
    connection.execute(update(comparisons).where(is_kept).values(claim_token_sha256=None))


def expired(connection: Connection, *, now: datetime) -> list[UUID]:
    """Return the ids of the claimed comparisons whose claim has expired, in any order, not locked."""
    lease, deadline = comparisons.c.lease_expires_at, comparisons.c.deadline_at
    # That the lease is there follows from the rest. It is said, and no order asked for, so that SQLite takes the index
    # of the active ones and does not look through a long history.
    is_claimed = and_(comparisons.c.ended_at.is_(None), lease.is_not(None))
    query = select(comparisons.c.id).where(is_claimed, or_(lease <= now, deadline <= now))
    return list(connection.scalars(query))


def page(connection: Connection, *, limit: int, offset: int, **where: object) -> list[Comparison]:
    """Return *limit* comparisons after *offset*, newest first, and one more where there is one."""
    query = select(*_SHOWN).filter_by(**where).order_by(comparisons.c.number.desc())
    return [_comparison(row) for row in connection.execute(query.limit(limit + 1).offset(offset))]


def page_of_active(connection: Connection, *, limit: int, binding_id: UUID, client_id: UUID) -> list[Comparison]:
    """Return *limit* active comparisons of a binding's consumer, newest first, and one more where there is one."""
    query = select(*_SHOWN).filter_by(project_binding_id=binding_id, consumer_client_id=client_id, ended_at=None)
    rows = connection.execute(query.order_by(comparisons.c.number.desc()).limit(limit + 1))
    return [_comparison(row) for row in rows]


def change(connection: Connection, comparison: Comparison) -> None:
    """Write what calls change of a comparison whose row is locked."""
    values = {name: getattr(comparison, name) for name in _CHANGING}
    connection.execute(update(comparisons).where(comparisons.c.id == comparison.id).values(**values))


def corpora_of(connection: Connection, revision_id: UUID) -> frozenset[str]:
    """Return the corpora that the labels of a suite revision's cases are about."""
    query = select(suite_cases.c.label_provenance).where(suite_cases.c.suite_revision_id == revision_id)
    return frozenset(str(found["corpus_revision"]) for found in connection.scalars(query))


def logged_calls(connection: Connection, request_ids: Iterable[str]) -> dict[str, LoggedCall]:
    """Return the rows of the gateway's log with these public ids, by them."""
    log = gateway_requests.c
    is_evidence = exists().where(evaluation_evidence.c.gateway_request_id == log.id)
    names = [field.name for field in fields(LoggedCall) if field.name not in ("row_id", "is_evidence")]
    query = select(log.id.label("row_id"), *(log[name] for name in names), is_evidence.label("is_evidence"))
    found = connection.execute(query.where(log.request_id.in_(sorted(set(request_ids)))))
    return {row.request_id: LoggedCall(**row._mapping) for row in found}


def insert_published(connection: Connection, published: Published) -> None:
    """Add both evaluation runs, their results and evidence, and the summary; raises EvidenceReused or EvidenceUnknown.

    Both mean that the log is no longer as it was read: a request has become evidence, or has been pruned.
    """
    for leg in LEGS:
        _insert_run(connection, published, leg)
    connection.execute(
        evaluation_summaries.insert().values(
            comparison_id=published.comparison_id,
            metrics_version=published.summary["metrics_version"],
            summary=published.summary,
            created_at=published.at,
        )
    )
    _insert_evidence(connection, published)


def _insert_run(connection: Connection, published: Published, leg: Leg) -> None:
    run = published.runs[leg]
    connection.execute(
        evaluation_runs.insert().values(
            id=run.id,
            comparison_id=published.comparison_id,
            leg=leg,
            deployment_id=run.deployment_id,
            created_at=published.at,
        )
    )
    connection.execute(
        evaluation_results.insert(),
        [
            {
                "evaluation_run_id": run.id,
                "case_id": result.outcome.case_id,
                "answer": result.outcome.answer,
                "latency_ms": result.outcome.latency_ms,
                "error_code": result.outcome.error_code,
                "metrics": dict(result.metrics),
            }
            for result in run.results
        ],
    )


def _insert_evidence(connection: Connection, published: Published) -> None:
    rows: list[dict[str, Any]] = [
        {"gateway_request_id": result.row_id, "evaluation_run_id": run.id, "case_id": result.outcome.case_id}
        for run in published.runs.values()
        for result in run.results
        if result.row_id is not None
    ]
    if not rows:
        return
    try:
        # In the order of the ids, in which a prune locks the rows: one of the two waits, and neither for ever.
        connection.execute(evaluation_evidence.insert(), sorted(rows, key=lambda row: row["gateway_request_id"]))
    except UniqueViolated as error:
        raise EvidenceReused from error
    except ConstraintViolated as error:
        raise EvidenceUnknown from error


def summaries_of(connection: Connection, ids: Sequence[UUID]) -> dict[UUID, dict[str, Any]]:
    """Return the evaluation summaries of those of these comparisons that have one."""
    query = select(evaluation_summaries.c.comparison_id, evaluation_summaries.c.summary)
    found = connection.execute(query.where(evaluation_summaries.c.comparison_id.in_(ids)))
    return {row.comparison_id: row.summary for row in found}


def page_of_cases(connection: Connection, comparison: Comparison, *, limit: int, offset: int) -> list[CaseReport]:
    """Return *limit* of a comparison's cases after *offset*, in the suite's order, and one more where there is one."""
    cases = suites.page_of_cases(connection, comparison.intent.suite_revision_id, limit=limit, offset=offset)
    reports = _leg_reports(connection, comparison.id, [case.case_id for case in cases])
    return [
        CaseReport(
            case_id=case.case_id,
            query=case.query,
            critical=case.critical,
            labels=case.labels,
            current=reports.get(("current", case.case_id)),
            candidate=reports.get(("candidate", case.case_id)),
        )
        for case in cases
    ]


def _leg_reports(
    connection: Connection, comparison_id: UUID, case_ids: Sequence[UUID]
) -> dict[tuple[Leg, UUID], LegReport]:
    results, evidence = evaluation_results.c, evaluation_evidence.c
    query = (
        select(
            evaluation_runs.c.leg,
            results.case_id,
            results.answer,
            results.latency_ms,
            results.error_code,
            results.metrics,
            gateway_requests.c.request_id.label("gateway_request_id"),
            gateway_requests.c.latency_ms.label("gateway_latency_ms"),
        )
        .select_from(
            evaluation_runs.join(evaluation_results, results.evaluation_run_id == evaluation_runs.c.id)
            .outerjoin(
                evaluation_evidence,
                and_(evidence.evaluation_run_id == results.evaluation_run_id, evidence.case_id == results.case_id),
            )
            .outerjoin(gateway_requests, gateway_requests.c.id == evidence.gateway_request_id)
        )
        .where(evaluation_runs.c.comparison_id == comparison_id, results.case_id.in_(case_ids))
    )
    return {
        (row.leg, row.case_id): LegReport(
            answer=row.answer,
            latency_ms=row.latency_ms,
            error_code=row.error_code,
            metrics=row.metrics,
            gateway_request_id=row.gateway_request_id,
            gateway_latency_ms=row.gateway_latency_ms,
        )
        for row in connection.execute(query)
    }


def _comparison(row: Row[Any]) -> Comparison:
    values = row._mapping
    intent = Intent(**{name: values[name] for name in _INTENT})
    return Comparison(intent=intent, **{name: values[name] for name in _OWN})
