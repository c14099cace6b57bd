"""The audit trail's rows; they are written in the transaction of the change and never changed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlalchemy import select

from steelyard.hub.audit.domain import AuditEvent, Change, kept_of
from steelyard.hub.db.tables import audit_events

if TYPE_CHECKING:
    from datetime import datetime

    from sqlalchemy import Connection

    from steelyard.hub.principal import Actor


def record(connection: Connection, change: Change, *, actor: Actor, at: datetime) -> None:
    """Add one event; of the thing before and after, the whitelisted fields are kept."""
    connection.execute(
        audit_events.insert().values(
            at=at,
            actor_role=actor.role,
            actor=actor.name,
            action=change.action,
            subject_kind=type(change.after).__name__,
            subject_id=str(change.after.id),
            project_id=change.project_id,
            before=kept_of(change.before),
            after=kept_of(change.after),
            request_id=actor.request_id,
        )
    )


def page(connection: Connection, *, limit: int, offset: int, **where: object) -> list[AuditEvent]:
    """Return *limit* events after *offset*, newest first, and one more where there is one."""
    query = select(audit_events).filter_by(**where).order_by(audit_events.c.id.desc())
    rows = connection.execute(query.limit(limit + 1).offset(offset))
    return [AuditEvent(**row._mapping) for row in rows]
