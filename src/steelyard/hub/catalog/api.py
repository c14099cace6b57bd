"""The catalogue's endpoints. Each opens one transaction; the rules are the service's.

Annotations are real objects here, since FastAPI reads them when a function is made.
"""

from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any
from uuid import UUID

from fastapi import APIRouter, Query
from starlette.responses import Response

from steelyard.hub.catalog import domain, schemas, store
from steelyard.hub.catalog.service import Catalog
from steelyard.hub.db.database import Database
from steelyard.hub.principal import Actor
from steelyard.hub.rest.access import Operator, Viewer
from steelyard.hub.rest.bodies import StrictRoute
from steelyard.hub.rest.fields import Body, Expected
from steelyard.hub.rest.paging import Page, PageQuery, page_of
from steelyard.hub.rest.problems import problems

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_KINDS: tuple[tuple[str, type[Any], type[Body] | None, type[PageQuery], Any], ...] = (
    ("/projects", domain.Project, schemas.NewProject, schemas.ProjectQuery, Catalog.create_project),
    (
        "/project-bindings",
        domain.ProjectBinding,
        schemas.NewProjectBinding,
        schemas.BindingQuery,
        Catalog.create_binding,
    ),
    ("/service-clients", domain.ServiceClient, schemas.NewServiceClient, schemas.ClientQuery, Catalog.create_client),
    ("/artifacts", domain.Artifact, schemas.NewArtifact, schemas.OwnedQuery, Catalog.create_artifact),
    ("/runtimes", domain.Runtime, schemas.NewRuntime, schemas.OwnedQuery, Catalog.create_runtime),
    (
        "/embedding-identities",
        domain.EmbeddingIdentity,
        schemas.NewEmbeddingIdentity,
        schemas.OwnedQuery,
        Catalog.create_identity,
    ),
    ("/deployments", domain.Deployment, schemas.NewDeployment, schemas.DeploymentQuery, Catalog.create_deployment),
    ("/routes", domain.Route, schemas.NewRoute, schemas.RouteQuery, Catalog.create_route),
)

_CHANGE_PROBLEMS = problems(404, 408, 409, 413, 415, 422)


def catalog_router(database: Database) -> APIRouter:
    """Return the endpoints under /api/v1."""
    router = APIRouter(route_class=StrictRoute, tags=["catalogue"], responses=problems(400, 401, 403, 429))
    for path, kind, new, query, create in _KINDS:
        _add_create(router, database, path=path, kind=kind, new=new, create=create)
        _add_list(router, database, path=path, kind=kind, query_model=query)
        _add_get(router, database, path=path, kind=kind)
    _add_binding_changes(router, database)
    _add_deployment_changes(router, database)
    _add_closings(router, database)
    return router


@contextmanager
def _catalog(database: Database, actor: Actor) -> "Iterator[Catalog]":
    with database.write() as connection:
        yield Catalog(connection, actor, database.now(connection))


def _add_create(
    router: APIRouter,
    database: Database,
    *,
    path: str,
    kind: type[Any],
    new: Any,
    create: "Callable[[Catalog, dict[str, Any]], Any]",
) -> None:
    def endpoint(body: new, actor: Operator, response: Response) -> Any:
        with _catalog(database, actor) as catalog:
            thing = create(catalog, body.model_dump())
        response.headers["Location"] = f"/api/v1{path}/{thing.id}"
        return thing

    router.add_api_route(
        path,
        endpoint,
        methods=["POST"],
        status_code=201,
        response_model=kind,
        name=f"create {kind.__name__}",
        summary=f"Create: {new.__doc__}",
        responses=problems(408, 409, 413, 415, 422),
    )


def _add_list(router: APIRouter, database: Database, *, path: str, kind: type[Any], query_model: Any) -> None:
    def endpoint(query: Annotated[query_model, Query()], _actor: Viewer) -> Any:
        with database.read() as connection:
            return page_of(store.page(connection, kind, **query.arguments()), query=query)

    router.add_api_route(
        path,
        endpoint,
        methods=["GET"],
        response_model=Page[kind],  # type: ignore[valid-type]  # FastAPI reads it when the program runs.
        name=f"list {kind.__name__}",
        summary=f"List: {query_model.__doc__}",
        responses=problems(422),
    )


def _add_get(router: APIRouter, database: Database, *, path: str, kind: type[Any]) -> None:
    def endpoint(thing_id: UUID, _actor: Viewer) -> Any:
        with database.read() as connection:
            return store.get(connection, kind, thing_id)

    router.add_api_route(
        f"{path}/{{thing_id}}",
        endpoint,
        methods=["GET"],
        response_model=kind,
        name=f"get {kind.__name__}",
        summary=f"Get: {kind.__doc__}",
        responses=problems(404, 422),
    )


def _add_binding_changes(router: APIRouter, database: Database) -> None:
    @router.post("/project-bindings/{thing_id}/current-deployment", responses=_CHANGE_PROBLEMS)
    def set_current_deployment(thing_id: UUID, body: schemas.SetCurrent, actor: Operator) -> domain.ProjectBinding:
        """Point a binding at another active production deployment. Nothing else ever moves this pointer."""
        with _catalog(database, actor) as catalog:
            return catalog.set_current(thing_id, body.deployment_id, expected_version=body.expected_version)

    @router.post("/project-bindings/{thing_id}/activate", responses=_CHANGE_PROBLEMS)
    def activate_binding(thing_id: UUID, body: Expected, actor: Operator) -> domain.ProjectBinding:
        """Let a binding carry traffic again."""
        with _catalog(database, actor) as catalog:
            return catalog.activate_binding(thing_id, is_active=True, expected_version=body.expected_version)

    @router.post("/project-bindings/{thing_id}/deactivate", responses=_CHANGE_PROBLEMS)
    def deactivate_binding(thing_id: UUID, body: Expected, actor: Operator) -> domain.ProjectBinding:
        """Stop a binding's traffic."""
        with _catalog(database, actor) as catalog:
            return catalog.activate_binding(thing_id, is_active=False, expected_version=body.expected_version)


def _add_deployment_changes(router: APIRouter, database: Database) -> None:
    @router.post("/deployments/{thing_id}/retire", responses=_CHANGE_PROBLEMS)
    def retire_deployment(thing_id: UUID, body: Expected, actor: Operator) -> domain.Deployment:
        """End a deployment for good; refused while traffic can reach it."""
        with _catalog(database, actor) as catalog:
            return catalog.retire(thing_id, expected_version=body.expected_version)

    @router.post("/deployments/{thing_id}/stage", responses=_CHANGE_PROBLEMS)
    def set_deployment_stage(thing_id: UUID, body: schemas.SetStage, actor: Operator) -> domain.Deployment:
        """Move a deployment that no traffic reaches between production and nonproduction."""
        with _catalog(database, actor) as catalog:
            return catalog.set_stage(thing_id, body.stage, expected_version=body.expected_version)


def _add_closings(router: APIRouter, database: Database) -> None:
    @router.post("/service-clients/{thing_id}/revoke", responses=_CHANGE_PROBLEMS)
    def revoke_client(thing_id: UUID, body: Expected, actor: Operator) -> domain.ServiceClient:
        """End a client for good; none of its secrets works from then on."""
        with _catalog(database, actor) as catalog:
            return catalog.revoke_client(thing_id, expected_version=body.expected_version)

    @router.post("/routes/{thing_id}/activate", responses=_CHANGE_PROBLEMS)
    def activate_route(thing_id: UUID, body: Expected, actor: Operator) -> domain.Route:
        """Let an experiment route carry traffic again."""
        with _catalog(database, actor) as catalog:
            return catalog.activate_route(thing_id, is_active=True, expected_version=body.expected_version)

    @router.post("/routes/{thing_id}/deactivate", responses=_CHANGE_PROBLEMS)
    def deactivate_route(thing_id: UUID, body: Expected, actor: Operator) -> domain.Route:
        """Stop an experiment route's traffic."""
        with _catalog(database, actor) as catalog:
            return catalog.activate_route(thing_id, is_active=False, expected_version=body.expected_version)
