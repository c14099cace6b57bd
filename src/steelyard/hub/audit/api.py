"""Reading the audit trail.

Annotations are real objects here, since FastAPI reads them when a function is made.
"""

from typing import Annotated
from uuid import UUID

from fastapi import APIRouter, Query
from pydantic import Field

from steelyard.hub.audit import store
from steelyard.hub.audit.domain import AuditEvent
from steelyard.hub.db.database import Database
from steelyard.hub.rest.checks import Viewer
from steelyard.hub.rest.paging import Page, PageQuery, page_of
from steelyard.hub.rest.routers import rest_router

_Word = Annotated[str | None, Field(None, pattern=r"^[A-Za-z0-9_.-]{1,64}$")]


class AuditQuery(PageQuery):
    """Audit events."""

    project_id: UUID | None = None
    actor: _Word
    action: _Word
    subject_kind: _Word
    subject_id: _Word


def audit_router(database: Database) -> APIRouter:
    """Return the endpoint under /api/v1."""
    router = rest_router(tag="audit")

    @router.get("/audit-events", responses={403: {}})
    def list_audit_events(_actor: Viewer, query: Annotated[AuditQuery, Query()]) -> Page[AuditEvent]:
        """List who did what to what, newest first."""
        with database.read() as connection:
            return page_of(store.page(connection, **query.arguments()), query=query)

    return router
