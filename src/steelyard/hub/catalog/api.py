"""The catalogue's endpoints. Each opens one transaction; the rules are the service's.

An endpoint's parameters stand in the order of its checks: the role, the path, the body. Annotations are real objects
here, since FastAPI reads them when a function is made.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Annotated, Any, NamedTuple
from uuid import UUID

from fastapi import APIRouter, Depends, Query
from starlette.responses import Response

from steelyard.hub.catalog import domain, schemas, store
from steelyard.hub.catalog.service import Catalog
from steelyard.hub.db.database import Database
from steelyard.hub.principal import Actor
from steelyard.hub.rest.checks import Known, Operator, Viewer
from steelyard.hub.rest.fields import Body, Expected
from steelyard.hub.rest.links import link, location
from steelyard.hub.rest.paging import Page, PageQuery, page_of
from steelyard.hub.rest.routers import rest_router


class _Kind(NamedTuple):
    """One kind of thing: its path and names, what makes one, what filters a list."""

    path: str
    name: str
    names: str
    thing: type[Any]
    new: type[Body]
    query: type[PageQuery]
    create: Callable[[Catalog, dict[str, Any]], Any]
    links: dict[str, Any]


def _leads_to(*names: str, field: str) -> dict[str, Any]:
    """Return the links from a new thing to the making of others that name it in *field*."""
    return {name: link(f"create_{name}", body={field: "id"}) for name in names}


def _changes(*operations: str) -> dict[str, Any]:
    return {name: link(name, path={"thing_id": "id"}, body={"expected_version": "version"}) for name in operations}


_KINDS = (
    _Kind(
        "/projects", "project", "projects", domain.Project, schemas.NewProject, schemas.ProjectQuery,
        Catalog.create_project,
        _leads_to("project_binding", "artifact", "runtime", "embedding_identity", field="project_id"),
    ),
    _Kind(
        "/project-bindings", "project_binding", "project_bindings", domain.ProjectBinding, schemas.NewProjectBinding,
        schemas.BindingQuery, Catalog.create_binding,
        _leads_to("service_client", "route", field="project_binding_id")
        | _changes("set_current_deployment", "activate_project_binding", "deactivate_project_binding"),
    ),
    _Kind(
        "/service-clients", "service_client", "service_clients", domain.ServiceClient, schemas.NewServiceClient,
        schemas.ClientQuery, Catalog.create_client,
        _changes("revoke_service_client") | {"secret": link("issue_client_credential", path={"thing_id": "id"})},
    ),
    _Kind(
        "/artifacts", "artifact", "artifacts", domain.Artifact, schemas.NewArtifact, schemas.OwnedQuery,
        Catalog.create_artifact, _leads_to("deployment", field="artifact_id"),
    ),
    _Kind(
        "/runtimes", "runtime", "runtimes", domain.Runtime, schemas.NewRuntime, schemas.OwnedQuery,
        Catalog.create_runtime, _leads_to("deployment", field="runtime_id"),
    ),
    _Kind(
        "/embedding-identities", "embedding_identity", "embedding_identities", domain.EmbeddingIdentity,
        schemas.NewEmbeddingIdentity, schemas.OwnedQuery, Catalog.create_identity,
        _leads_to("deployment", field="embedding_identity_id"),
    ),
    _Kind(
        "/deployments", "deployment", "deployments", domain.Deployment, schemas.NewDeployment,
        schemas.DeploymentQuery, Catalog.create_deployment,
        _leads_to("route", field="deployment_id") | _changes("retire_deployment", "set_deployment_stage"),
    ),
    _Kind(
        "/routes", "route", "routes", domain.Route, schemas.NewRoute, schemas.RouteQuery, Catalog.create_route,
        _changes("activate_route", "deactivate_route"),
    ),
)  # fmt: skip
_CONFLICT: dict[int | str, dict[str, Any]] = {403: {}, 409: {}}
_FORBIDDEN: dict[int | str, dict[str, Any]] = {403: {}}


def catalog_router(database: Database) -> APIRouter:
    """Return the endpoints under /api/v1."""
    router = rest_router(tag="catalogue")
    for kind in _KINDS:
        _add_create(router, database, kind)
        _add_list(router, database, kind)
        _add_get(router, database, kind)
    _add_binding_changes(router, database)
    _add_deployment_changes(router, database)
    _add_client_changes(router, database)
    _add_route_changes(router, database)
    return router


@contextmanager
def _catalog(database: Database, actor: Actor) -> Iterator[Catalog]:
    with database.write() as connection:
        yield Catalog(connection, actor, database.now(connection))


def _add_create(router: APIRouter, database: Database, kind: _Kind) -> None:
    new: Any = kind.new

    def endpoint(actor: Operator, body: new, response: Response) -> Any:
        with _catalog(database, actor) as catalog:
            thing = kind.create(catalog, body.model_dump())
        response.headers["Location"] = f"/api/v1{kind.path}/{thing.id}"
        return thing

    links = {"self": link(f"get_{kind.name}", path={"thing_id": "id"}), **kind.links}
    router.add_api_route(
        kind.path,
        endpoint,
        methods=["POST"],
        status_code=201,
        response_model=kind.thing,
        name=f"create_{kind.name}",
        summary=f"Create {_a(kind.name)}.",
        description=kind.new.__doc__,
        responses={201: {"headers": location(), "links": links}, **_CONFLICT},
    )


def _add_list(router: APIRouter, database: Database, kind: _Kind) -> None:
    query_model: Any = kind.query

    def endpoint(_actor: Viewer, query: Annotated[query_model, Query()]) -> Any:
        with database.read() as connection:
            return page_of(store.page(connection, kind.thing, **query.arguments()), query=query)

    router.add_api_route(
        kind.path,
        endpoint,
        methods=["GET"],
        response_model=Page[kind.thing],  # type: ignore[name-defined]  # FastAPI reads it when the program runs.
        name=f"list_{kind.names}",
        summary=f"List {_plain(kind.names)}, newest first.",
        responses=_FORBIDDEN,
    )


def _add_get(router: APIRouter, database: Database, kind: _Kind) -> None:
    def endpoint(_actor: Viewer, thing_id: UUID) -> Any:
        with database.read() as connection:
            return store.get(connection, kind.thing, thing_id)

    router.add_api_route(
        f"{kind.path}/{{thing_id:uuid}}",
        endpoint,
        methods=["GET"],
        response_model=kind.thing,
        name=f"get_{kind.name}",
        summary=f"Get {_a(kind.name)}.",
        description=kind.thing.__doc__,
        responses={200: {"links": kind.links}, **_FORBIDDEN},
    )


def _plain(name: str) -> str:
    return name.replace("_", " ")


def _a(name: str) -> str:
    return f"{'an' if name[0] in 'aeiou' else 'a'} {_plain(name)}"


def _known(database: Database, thing: type[Any]) -> Any:
    """Return the dependency by which a path's id is that of a *thing*, which is checked before the body is read."""

    def get(thing_id: UUID) -> None:
        with database.read() as connection:
            store.get(connection, thing, thing_id)

    return Annotated[None, Depends(Known(get))]


def _add_binding_changes(router: APIRouter, database: Database) -> None:
    known: Any = _known(database, domain.ProjectBinding)

    @router.post("/project-bindings/{thing_id:uuid}/current-deployment", responses=_CONFLICT)
    def set_current_deployment(
        actor: Operator, thing_id: UUID, _found: known, body: schemas.SetCurrent
    ) -> domain.ProjectBinding:
        """Point a binding at another active production deployment. Nothing else ever moves this pointer."""
        with _catalog(database, actor) as catalog:
            return catalog.set_current(thing_id, body.deployment_id, expected_version=body.expected_version)

    @router.post("/project-bindings/{thing_id:uuid}/activate", responses=_CONFLICT)
    def activate_project_binding(
        actor: Operator, thing_id: UUID, _found: known, body: Expected
    ) -> domain.ProjectBinding:
        """Let a binding carry traffic again."""
        with _catalog(database, actor) as catalog:
            return catalog.activate_binding(thing_id, is_active=True, expected_version=body.expected_version)

    @router.post("/project-bindings/{thing_id:uuid}/deactivate", responses=_CONFLICT)
    def deactivate_project_binding(
        actor: Operator, thing_id: UUID, _found: known, body: Expected
    ) -> domain.ProjectBinding:
        """Stop a binding's traffic."""
        with _catalog(database, actor) as catalog:
            return catalog.activate_binding(thing_id, is_active=False, expected_version=body.expected_version)


def _add_deployment_changes(router: APIRouter, database: Database) -> None:
    known: Any = _known(database, domain.Deployment)

    @router.post("/deployments/{thing_id:uuid}/retire", responses=_CONFLICT)
    def retire_deployment(actor: Operator, thing_id: UUID, _found: known, body: Expected) -> domain.Deployment:
        """End a deployment for good; refused while traffic can reach it."""
        with _catalog(database, actor) as catalog:
            return catalog.retire(thing_id, expected_version=body.expected_version)

    @router.post("/deployments/{thing_id:uuid}/stage", responses=_CONFLICT)
    def set_deployment_stage(
        actor: Operator, thing_id: UUID, _found: known, body: schemas.SetStage
    ) -> domain.Deployment:
        """Move a deployment that no traffic reaches between production and nonproduction."""
        with _catalog(database, actor) as catalog:
            return catalog.set_stage(thing_id, body.stage, expected_version=body.expected_version)


def _add_client_changes(router: APIRouter, database: Database) -> None:
    known: Any = _known(database, domain.ServiceClient)

    @router.post("/service-clients/{thing_id:uuid}/revoke", responses=_CONFLICT)
    def revoke_service_client(actor: Operator, thing_id: UUID, _found: known, body: Expected) -> domain.ServiceClient:
        """End a client for good; none of its secrets works from then on."""
        with _catalog(database, actor) as catalog:
            return catalog.revoke_client(thing_id, expected_version=body.expected_version)


def _add_route_changes(router: APIRouter, database: Database) -> None:
    known: Any = _known(database, domain.Route)

    @router.post("/routes/{thing_id:uuid}/activate", responses=_CONFLICT)
    def activate_route(actor: Operator, thing_id: UUID, _found: known, body: Expected) -> domain.Route:
        """Let an experiment route carry traffic again."""
        with _catalog(database, actor) as catalog:
            return catalog.activate_route(thing_id, is_active=True, expected_version=body.expected_version)

    @router.post("/routes/{thing_id:uuid}/deactivate", responses=_CONFLICT)
    def deactivate_route(actor: Operator, thing_id: UUID, _found: known, body: Expected) -> domain.Route:
        """Stop an experiment route's traffic."""
        with _catalog(database, actor) as catalog:
            return catalog.activate_route(thing_id, is_active=False, expected_version=body.expected_version)
