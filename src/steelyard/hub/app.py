"""Builds the ASGI application of one hub process from its parts."""

from __future__ import annotations

import functools
import json
import time
from dataclasses import asdict, dataclass
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
from steelyard.hub.comparisons.api import comparisons_router
from steelyard.hub.comparisons.consumer_api import consumer_router
from steelyard.hub.comparisons.domain.eligibility import Rule
from steelyard.hub.credentials.api import credentials_router
from steelyard.hub.credentials.guard import Guard
from steelyard.hub.credentials.limits import Buckets
from steelyard.hub.db.database import Database
from steelyard.hub.declare.api import declare_router
from steelyard.hub.examples import examples
from steelyard.hub.gateway.api import PREFIX as GATEWAY_PREFIX
from steelyard.hub.gateway.api import answer_for as openai_answer_for
from steelyard.hub.gateway.gateway import Gateway
from steelyard.hub.gateway.log_api import log_router
from steelyard.hub.gateway.openapi import gateway_document
from steelyard.hub.metrics import Metrics
from steelyard.hub.rest.handlers import Handlers
from steelyard.hub.rest.openapi import complete, merge, names_in
from steelyard.hub.rest.paths import Paths
from steelyard.hub.rest.routers import name_of
from steelyard.hub.suites.api import suites_router
from steelyard.web.admission import Admission
from steelyard.web.application import unforeseen_middleware
from steelyard.web.errors import ClientGone
from steelyard.web.gate import Gate

if TYPE_CHECKING:
    from collections.abc import Mapping

    from steelyard.hub.settings import Settings

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
    """One process's application and its parts that end with it: the admission by which it drains, and the gateway."""

    app: Gate
    admission: Admission
    gateway: Gateway
    document: dict[str, Any]


def build_hub(settings: Settings, database: Database, *, environ: Mapping[str, str]) -> Hub:
    """Return the hub over a database that has the newest schema; *environ* has the runtimes' keys."""
    admission = Admission(settings.max_in_progress)
    metrics = Metrics(in_progress=lambda: admission.in_progress)
    gateway = Gateway(settings, database, admission=admission, environ=environ)
    api, document = _api(database, rule=_rule(settings)), build_document()
    about = about_routes(admission, metrics, is_healthy=lambda: gateway.is_healthy, document=document)
    api.router.routes[:0] = gateway.routes()  # First, for they have the traffic, and FastAPI tries each route twice.
    api.router.routes.extend(about)
    paths = Paths(_routes_of(api))
    handlers = Handlers(paths=paths, names=names_in(document), other_shapes={f"{GATEWAY_PREFIX}/": openai_answer_for})
    _answer_errors(api, handlers)
    app = Gate(
        api,
        guard=_guard(settings, database),
        answer=handlers.refuse,
        label=lambda scope: paths.label(scope["path"]),
        on_answer=lambda path, status: metrics.count_request(path=path, status=status),
    )
    return Hub(app=app, admission=admission, gateway=gateway, document=document)


def _api(database: Database, *, rule: Rule) -> FastAPI:
    api = FastAPI(
        title="steelyard hub",
        version=version("steelyard"),
        description="A catalogue of embedding deployments, the gateway to them, and comparisons between them.",
        docs_url=None,
        redoc_url=None,
        openapi_url=None,
        redirect_slashes=False,  # Paths are exact: a trailing slash is another path.
        telemetry=_NO_TELEMETRY,
        generate_unique_id_function=name_of,
    )
    routers = (
        catalog_router, suites_router, declare_router, credentials_router, audit_router, log_router, consumer_router,
    )  # fmt: skip
    for router in routers:
        api.router.routes.extend(router(database).routes)
    api.router.routes.extend(comparisons_router(database, rule=asdict(rule)).routes)
    return api


def build_document() -> dict[str, Any]:
    """Return the OpenAPI document, which is every hub's; the caller may change it."""
    document: dict[str, Any] = json.loads(_document_text())
    return document


@functools.cache
def _document_text() -> str:
    """Return the document as JSON. It takes longer to make than all else of a hub.

    What FastAPI does not know of the endpoints is added.
    """
    document = _api(Database("sqlite:///never-opened"), rule=Rule()).openapi()
    document["paths"].update(about_operations())
    return json.dumps(merge(complete(document, examples=examples(), open_paths=OPEN_PATHS), gateway_document()))


def _routes_of(api: FastAPI) -> list[tuple[str, set[str]]]:
    contexts = iter_route_contexts(api.routes)
    return [(context.path, context.methods) for context in contexts if context.path and context.methods]


def _answer_errors(api: FastAPI, handlers: Handlers) -> None:
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


def _rule(settings: Settings) -> Rule:
    return Rule(
        margin=settings.eligibility_margin,
        minimum_cases=settings.eligibility_min_cases,
        candidate_error_rate_limit=settings.eligibility_error_rate,
    )


def _buckets(per_second: float, *, burst: float) -> Buckets:
    return Buckets(per_second=per_second, burst=max(1, int(burst)), clock=time.monotonic)
