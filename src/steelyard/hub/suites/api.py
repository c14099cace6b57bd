"""The endpoints for suites. Each opens one transaction; the rules are the service's and the schemas'.

Annotations are real objects here, since FastAPI reads them when a function is made.
"""

from typing import Annotated, Any
from uuid import UUID

from fastapi import APIRouter, Query
from starlette.responses import Response

from steelyard.hub.db.database import Database
from steelyard.hub.rest.access import Operator, Viewer
from steelyard.hub.rest.bodies import StrictRoute
from steelyard.hub.rest.paging import Page, PageQuery, page_of
from steelyard.hub.rest.problems import problems
from steelyard.hub.suites import schemas, store
from steelyard.hub.suites.domain import Case, Suite, SuiteRevision
from steelyard.hub.suites.service import Suites


def suites_router(database: Database) -> APIRouter:
    """Return the endpoints under /api/v1."""
    router = APIRouter(route_class=StrictRoute, tags=["suites"], responses=problems(400, 401, 403, 429))
    _add_suites(router, database)
    _add_import(router, database)
    _add_revisions(router, database)
    return router


def _add_suites(router: APIRouter, database: Database) -> None:
    @router.post("/suites", status_code=201, responses=problems(408, 409, 413, 415, 422))
    def create_suite(body: schemas.NewSuite, actor: Operator, response: Response) -> Suite:
        """Create a suite; what it asks is imported as its revisions."""
        with database.write() as connection:
            suite = Suites(connection, actor, database.now(connection)).create(body.model_dump())
        response.headers["Location"] = f"/api/v1/suites/{suite.id}"
        return suite

    @router.get("/suites", responses=problems(422))
    def list_suites(query: Annotated[schemas.SuiteQuery, Query()], _actor: Viewer) -> Page[Suite]:
        """List suites, newest first."""
        with database.read() as connection:
            return page_of(store.page_of_suites(connection, **query.arguments()), query=query)

    @router.get("/suites/{suite_id}", responses=problems(404, 422))
    def get_suite(suite_id: UUID, _actor: Viewer) -> Suite:
        """Get one suite."""
        with database.read() as connection:
            return store.get_suite(connection, suite_id)


def _add_import(router: APIRouter, database: Database) -> None:
    repeated: dict[int | str, dict[str, Any]] = {
        200: {"model": SuiteRevision, "description": "The suite has this content already, as this revision."}
    }

    @router.post(
        "/suites/{suite_id}/revisions",
        status_code=201,
        responses=problems(404, 408, 413, 415, 422) | repeated,
    )
    def import_revision(
        suite_id: UUID, body: schemas.NewSuiteRevision, actor: Operator, response: Response
    ) -> SuiteRevision:
        """Import reviewed cases as a suite's next revision, which nothing changes afterwards."""
        content = body.content()
        with database.write() as connection:
            suites = Suites(connection, actor, database.now(connection))
            revision, is_new = suites.import_revision(suite_id, content)
        response.status_code = 201 if is_new else 200
        response.headers["Location"] = f"/api/v1/suite-revisions/{revision.id}"
        return revision


def _add_revisions(router: APIRouter, database: Database) -> None:
    @router.get("/suites/{suite_id}/revisions", responses=problems(404, 422))
    def list_revisions(
        suite_id: UUID, query: Annotated[schemas.RevisionQuery, Query()], _actor: Viewer
    ) -> Page[SuiteRevision]:
        """List a suite's revisions, newest first."""
        with database.read() as connection:
            store.get_suite(connection, suite_id)
            found = store.page_of_revisions(connection, suite_id=suite_id, **query.arguments())
            return page_of(found, query=query)

    @router.get("/suite-revisions/{revision_id}", responses=problems(404, 422))
    def get_revision(revision_id: UUID, _actor: Viewer) -> SuiteRevision:
        """Get one revision, without its cases."""
        with database.read() as connection:
            return store.get_revision(connection, revision_id)

    @router.get("/suite-revisions/{revision_id}/cases", responses=problems(404, 422))
    def list_cases(revision_id: UUID, query: Annotated[PageQuery, Query()], _actor: Viewer) -> Page[Case]:
        """List a revision's cases with their labels, in the order in which they were imported."""
        with database.read() as connection:
            store.get_revision(connection, revision_id)
            found = store.page_of_cases(connection, revision_id, limit=query.limit, offset=query.offset)
            return page_of(found, query=query)
