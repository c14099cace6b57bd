"""Deletes old rows of the request log, a bounded batch at a time, and never one that is evidence."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, NamedTuple

from sqlalchemy import and_, func, or_, select

from steelyard.hub.db.tables import audit_events, evaluation_evidence, gateway_requests

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime

    from sqlalchemy import ColumnElement, Connection, Select

    from steelyard.hub.db.database import Database

# Queries of one column, never null: the row ids of requests that something must be able to show for ever. Whoever
# keeps such evidence adds a query here, and a foreign key to the request, which holds even without this.
EVIDENCE: list[Select[int]] = [select(evaluation_evidence.c.gateway_request_id)]
_BATCH_ROWS = 1000
# No call takes as long, so a row without an end that is older is of a process that was killed.
_LONGEST_CALL = timedelta(hours=1)


class Pruned(NamedTuple):
    """How many rows were older than *before*: those deleted, or to be deleted, and those kept as evidence."""

    before: datetime
    deleted: int
    kept: int


def count(database: Database, *, older_than: timedelta) -> Pruned:
    """Return what `prune` would do now."""
    with database.read() as connection:
        before = database.now(connection) - older_than
        deleted = connection.scalar(select(func.count()).where(_is_old(before), *_is_no_evidence()))
        total = connection.scalar(select(func.count()).where(_is_old(before)))
    return Pruned(before=before, deleted=deleted or 0, kept=(total or 0) - (deleted or 0))


def prune(database: Database, plan: Pruned, *, on_rows: Callable[[int], object]) -> int:
    """Delete what *plan* counted, telling *on_rows* the size of each batch, and return how many rows went.

    Each batch is a transaction of its own, so hubs go on serving, and an interrupted run has lost nothing.
    """
    total, last = 0, 0
    while True:
        with database.write() as connection:
            ids = connection.scalars(_batch(plan.before, after=last)).all()
            if ids:
                deleted = gateway_requests.delete().where(gateway_requests.c.id.in_(ids), *_is_no_evidence())
                count = connection.execute(deleted).rowcount
                if not last:  # With the first rows, so that an interrupted run is in the trail too.
                    _audit(connection, "store.prune_begun", plan, at=database.now(connection), planned=plan.deleted)
                total, last = total + count, ids[-1]
            elif total:
                _audit(connection, "store.pruned", plan, at=database.now(connection), deleted=total)
        if not ids:
            return total
        on_rows(count)


def _batch(before: datetime, *, after: int) -> Select[int]:
    rows = select(gateway_requests.c.id).where(
        gateway_requests.c.id > after, _is_old(before), *_is_no_evidence()
    )  # fmt: skip
    # Locked, so that none becomes evidence any more; and where one just does, this waits, and the deletion spares it.
    return rows.order_by(gateway_requests.c.id).limit(_BATCH_ROWS).with_for_update()


def _is_old(before: datetime) -> ColumnElement[bool]:
    started_at = gateway_requests.c.started_at
    has_ended = or_(gateway_requests.c.status != "started", started_at < before - _LONGEST_CALL)
    return and_(started_at < before, has_ended)


def _is_no_evidence() -> list[ColumnElement[bool]]:
    return [gateway_requests.c.id.not_in(query) for query in EVIDENCE]


def _audit(connection: Connection, action: str, plan: Pruned, *, at: datetime, **counts: int) -> None:
    connection.execute(
        audit_events.insert().values(
            at=at,
            actor_role="local",
            actor="local",
            action=action,
            subject_kind="Store",
            subject_id="gateway_requests",
            after={**counts, "before": plan.before.isoformat()},
        )
    )
