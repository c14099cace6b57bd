"""Builds the ASGI application of one hub process from its parts."""

from __future__ import annotations

import time
from dataclasses import dataclass
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError
from fastapi.routing import iter_route_contexts
from starlette.exceptions import HTTPException

from steelyard.hall.errors import SteelyardError
from steelyard.hub.about import OPEN_PATHS, about_operations, about_routes
from steelyard.hub.audit.api import audit_router
from steelyard.hub.catalog.api import catalog_router
from steelyard.hub.credentials.api import credentials_router
from steelyard.hub.credentials.guard import Guard
from steelyard.hub.credentials.limits import Buckets
from steelyard.hub.examples import examples
from steelyard.hub.metrics import Metrics
from steelyard.hub.rest.openapi import complete, names_in
from steelyard.hub.rest.paths import Paths
from steelyard.hub.rest.problems import ProblemHandlers
from steelyard.web.admission import Admission
from steelyard.web.application import unforeseen_middleware
from steelyard.web.errors import ClientGone
from steelyard.web.gate import Gate

if TYPE_CHECKING:
    from steelyard.hub.db.database import Database
    from steelyard.hub.settings import Settings

_PREFIX = "/api/v1"
_BURST_S = 2.0
# FastAPI would hand spans and records with paths, queries and values of requests to an OpenTelemetry provider that any
# package of the environment has set, and read FASTAPI_OTEL_AUTO_CONFIGURE. The hub has metrics and a log of its own.
_NO_TELEMETRY: Any = {
    "tracing": False,
    "metrics": False,
    "logs": False,
    "operation_spans": False,
    "auto_configure": False,
}


@dataclass(frozen=True)
class Hub:
    """One process's ASGI application, its admission, by which it drains, and its OpenAPI document."""

    app: Gate
    admission: Admission
    document: dict[str, Any]


def build_hub(settings: Settings, database: Database) -> Hub:
    """Return the hub over a database that has the newest schema."""
    admission = Admission(settings.max_in_progress)
    metrics = Metrics(in_progress=lambda: admission.in_progress)
    api = _api(database)
    document = _document(api)
    api.router.routes.extend(about_routes(admission, metrics, document=lambda: document))
    paths = Paths(_routes_of(api))
    handlers = ProblemHandlers(paths=paths, names=names_in(document))
    _answer_errors(api, handlers)
    app = Gate(
        api,
        guard=_guard(settings, database),
        answer=handlers.refuse,
        label=lambda scope: paths.label(scope["path"]),
        on_answer=lambda path, status: metrics.count_request(path=path, status=status),
    )
    return Hub(app=app, admission=admission, document=document)


def _api(database: Database) -> FastAPI:
    api = FastAPI(
        title="steelyard hub",
        version=version("steelyard"),
        description="A catalogue of embedding deployments, and the gateway to them.",
        docs_url=None,
        redoc_url=None,
        openapi_url=None,
        redirect_slashes=False,  # Paths are exact: a trailing slash is another path.
        telemetry=_NO_TELEMETRY,
        generate_unique_id_function=lambda route: route.name,
    )
    for router in (catalog_router(database), credentials_router(database), audit_router(database)):
        api.include_router(router, prefix=_PREFIX)
    return api


def _document(api: FastAPI) -> dict[str, Any]:
    """Return the OpenAPI document; what FastAPI does not know of the endpoints is added."""
    document = api.openapi()
    document["paths"].update(about_operations())
    return complete(document, examples=examples(), open_paths=OPEN_PATHS)


def _routes_of(api: FastAPI) -> list[tuple[str, set[str]]]:
    contexts = iter_route_contexts(api.routes)
    return [(context.path, context.methods) for context in contexts if context.path and context.methods]


def _answer_errors(api: FastAPI, handlers: ProblemHandlers) -> None:
    api.add_exception_handler(HTTPException, handlers.answer_http)
    for kind in (RequestValidationError, SteelyardError, ClientGone):
        api.add_exception_handler(kind, handlers.answer)
    api.user_middleware.append(unforeseen_middleware(handlers.answer))


def _guard(settings: Settings, database: Database) -> Guard:
    return Guard(
        database,
        open_paths=OPEN_PATHS,
        failures=_buckets(settings.failures_per_minute / 60, burst=settings.failures_per_minute),
        calls=_buckets(settings.calls_per_second, burst=settings.calls_per_second * _BURST_S),
    )


def _buckets(per_second: float, *, burst: float) -> Buckets:
    return Buckets(per_second=per_second, burst=max(1, int(burst)), clock=time.monotonic)
