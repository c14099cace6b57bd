"""The endpoints for suites. Each opens one transaction; the rules are the service's and the schemas'.

Annotations are real objects here, since FastAPI reads them when a function is made.
"""

from typing import Annotated, Any
from uuid import UUID

from fastapi import APIRouter, Depends, Query
from starlette.responses import Response

from steelyard.hub.db.database import Database
from steelyard.hub.rest.checks import Known, Operator, Viewer
from steelyard.hub.rest.links import link, location
from steelyard.hub.rest.paging import Page, PageQuery, page_of
from steelyard.hub.rest.routers import rest_router
from steelyard.hub.suites import schemas, store
from steelyard.hub.suites.domain import Case, Suite, SuiteRevision
from steelyard.hub.suites.service import Suites


def suites_router(database: Database) -> APIRouter:
    """Return the endpoints under /api/v1."""
    router = rest_router(tag="suites", responses={403: {}})
    _add_suites(router, database)
    _add_import(router, database)
    _add_revisions(router, database)
    return router


def _add_suites(router: APIRouter, database: Database) -> None:
    made: dict[int | str, dict[str, Any]] = {
        201: {
            "headers": location(),
            "links": {
                "self": link("get_suite", path={"suite_id": "id"}),
                "revision": link("import_revision", path={"suite_id": "id"}),
            },
        },
        409: {},
    }

    @router.post("/suites", status_code=201, responses=made)
    def create_suite(actor: Operator, body: schemas.NewSuite, response: Response) -> Suite:
        """Create a suite; what it asks is imported as its revisions."""
        with database.write() as connection:
            suite = Suites(connection, actor, database.now(connection)).create(body.model_dump())
        response.headers["Location"] = f"/api/v1/suites/{suite.id}"
        return suite

    @router.get("/suites")
    def list_suites(_actor: Viewer, query: Annotated[schemas.SuiteQuery, Query()]) -> Page[Suite]:
        """List suites, newest first."""
        with database.read() as connection:
            return page_of(store.page_of_suites(connection, **query.arguments()), query=query)

    @router.get("/suites/{suite_id:uuid}")
    def get_suite(_actor: Viewer, suite_id: UUID) -> Suite:
        """Get one suite."""
        with database.read() as connection:
            return store.get_suite(connection, suite_id)


def _add_import(router: APIRouter, database: Database) -> None:
    repeated: dict[int | str, dict[str, Any]] = {
        200: {"model": SuiteRevision, "description": "The suite has this content already, as this revision."},
        201: {"headers": location(), "links": {"self": link("get_revision", path={"revision_id": "id"})}},
    }

    def get(suite_id: UUID) -> None:
        with database.read() as connection:
            store.get_suite(connection, suite_id)

    @router.post(
        "/suites/{suite_id:uuid}/revisions",
        status_code=201,
        responses=repeated,
    )
    def import_revision(
        actor: Operator,
        suite_id: UUID,
        _found: Annotated[None, Depends(Known(get))],
        body: schemas.NewSuiteRevision,
        response: Response,
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
    @router.get("/suites/{suite_id:uuid}/revisions")
    def list_revisions(
        _actor: Viewer, suite_id: UUID, query: Annotated[schemas.RevisionQuery, Query()]
    ) -> Page[SuiteRevision]:
        """List a suite's revisions, newest first."""
        with database.read() as connection:
            store.get_suite(connection, suite_id)
            found = store.page_of_revisions(connection, suite_id=suite_id, **query.arguments())
            return page_of(found, query=query)

    @router.get("/suite-revisions/{revision_id:uuid}")
    def get_revision(_actor: Viewer, revision_id: UUID) -> SuiteRevision:
        """Get one revision, without its cases."""
        with database.read() as connection:
            return store.get_revision(connection, revision_id)

    @router.get("/suite-revisions/{revision_id:uuid}/cases")
    def list_cases(_actor: Viewer, revision_id: UUID, query: Annotated[PageQuery, Query()]) -> Page[Case]:
        """List a revision's cases with their labels, in the order in which they were imported."""
        with database.read() as connection:
            store.get_revision(connection, revision_id)
            found = store.page_of_cases(connection, revision_id, limit=query.limit, offset=query.offset)
            return page_of(found, query=query)
