"""Reading the request log.

Annotations are real objects here, since FastAPI reads them when a function is made.
"""

from typing import Annotated
from uuid import UUID

from fastapi import APIRouter, Query
from pydantic import Field

from steelyard.hub.db.database import Database
from steelyard.hub.gateway import store
from steelyard.hub.gateway.domain.entries import LoggedRequest, Status
from steelyard.hub.rest.checks import Viewer
from steelyard.hub.rest.fields import Moment
from steelyard.hub.rest.paging import Page, PageQuery, page_of
from steelyard.hub.rest.patterns import REQUEST_ID
from steelyard.hub.rest.routers import rest_router


class LogQuery(PageQuery):
    """Gateway requests."""

    service_client_id: UUID | None = None
    project_binding_id: UUID | None = None
    route_id: UUID | None = None
    deployment_id: UUID | None = None
    status: Status | None = None
    request_id: Annotated[str | None, Field(None, pattern=REQUEST_ID, description="An answer's x-request-id.")]
    started_since: Moment | None = Field(None, description="Requests that started at this time or later.")
    started_until: Moment | None = Field(None, description="Requests that started before this time.")


def log_router(database: Database) -> APIRouter:
    """Return the endpoint under /api/v1."""
    router = rest_router(tag="gateway", responses={403: {}})

    @router.get("/gateway-requests")
    def list_gateway_requests(_actor: Viewer, query: Annotated[LogQuery, Query()]) -> Page[LoggedRequest]:
        """List embedding requests, newest first: who asked what deployment when, and how it ended; never a text."""
        with database.read() as connection:
            return page_of(store.page_of_requests(connection, **query.arguments()), query=query)

    return router
