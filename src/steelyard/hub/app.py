"""Builds the ASGI application of one hub process from its parts."""

from __future__ import annotations

import time
from dataclasses import dataclass
from importlib.metadata import version
from typing import TYPE_CHECKING

from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.responses import Response
from starlette.routing import Route

from steelyard.hall.errors import SteelyardError
from steelyard.hub.audit.api import audit_router
from steelyard.hub.catalog.api import catalog_router
from steelyard.hub.credentials.api import credentials_router
from steelyard.hub.credentials.guard import Guard
from steelyard.hub.credentials.limits import Buckets
from steelyard.hub.declare.api import declare_router
from steelyard.hub.gateway.api import PREFIX as GATEWAY_PREFIX
from steelyard.hub.gateway.api import answer_for as openai_answer_for
from steelyard.hub.gateway.gateway import Gateway
from steelyard.hub.gateway.log_api import log_router
from steelyard.hub.metrics import Metrics
from steelyard.hub.rest.problems import answer_exception, answer_http_exception, answer_refusal
from steelyard.hub.suites.api import suites_router
from steelyard.web.admission import Admission
from steelyard.web.answers import JSONAnswer
from steelyard.web.application import unforeseen_middleware
from steelyard.web.errors import ClientGone, NotReady
from steelyard.web.gate import Gate

if TYPE_CHECKING:
    from collections.abc import Mapping

    from starlette.requests import Request
    from starlette.types import ASGIApp, Receive, Scope, Send

    from steelyard.hub.db.database import Database
    from steelyard.hub.settings import Settings
    from steelyard.web.errors import RequestRefused

_PREFIX = "/api/v1"
_METRICS_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_BURST_S = 2.0


@dataclass(frozen=True)
class Hub:
    """One process's application, the admission by which it drains, and the gateway, which is closed after that."""

    app: Gate
    admission: Admission
    gateway: Gateway


def build_hub(settings: Settings, database: Database, *, environ: Mapping[str, str]) -> Hub:
    """Return the hub over a database that has the newest schema; *environ* has the runtimes' keys."""
    admission = Admission(settings.max_in_progress)
    metrics = Metrics(in_progress=lambda: admission.in_progress)
    gateway = Gateway(settings, database, admission=admission, environ=environ)
    api = _api(database)
    api.router.routes.extend(_own_routes(admission, metrics, gateway))
    app = Gate(
        _by_path(gateway.application(), api),
        guard=_guard(settings, database),
        answer=_answer_refusal,
        label=_label,
        on_answer=lambda path, status: metrics.count_request(path=path, status=status),
    )
    return Hub(app=app, admission=admission, gateway=gateway)


def _api(database: Database) -> FastAPI:
    api = FastAPI(
        title="steelyard hub",
        version=version("steelyard"),
        description="A catalogue of embedding deployments, and the gateway to them.",
        docs_url=None,
        redoc_url=None,
        openapi_url="/openapi.json",
        redirect_slashes=False,  # Paths are exact: a trailing slash is another path.
        exception_handlers={
            HTTPException: answer_http_exception,
            RequestValidationError: answer_exception,
            SteelyardError: answer_exception,
            ClientGone: answer_exception,
        },
        middleware=[unforeseen_middleware(answer_exception)],
    )
    routers = (catalog_router, suites_router, declare_router, credentials_router, audit_router, log_router)
    for router in routers:
        api.include_router(router(database), prefix=_PREFIX)
    return api


def _guard(settings: Settings, database: Database) -> Guard:
    failures_per_second = settings.failures_per_minute / 60
    return Guard(
        database,
        open_routes={("GET", "/health"), ("HEAD", "/health"), ("GET", "/openapi.json")},
        failures=Buckets(
            per_second=failures_per_second, burst=max(1, int(settings.failures_per_minute)), clock=time.monotonic
        ),
        calls=Buckets(
            per_second=settings.calls_per_second,
            burst=max(1, int(settings.calls_per_second * _BURST_S)),
            clock=time.monotonic,
        ),
    )


def _by_path(gateway: ASGIApp, api: ASGIApp) -> ASGIApp:
    """Return both as one. The gateway has the traffic, so it goes past what the catalogue's API needs."""

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await (gateway if _is_openai(scope) else api)(scope, receive, send)

    return app


def _is_openai(scope: Scope) -> bool:
    return str(scope["path"]).startswith(f"{GATEWAY_PREFIX}/")


def _answer_refusal(refusal: RequestRefused, scope: Scope) -> Response:
    return openai_answer_for(refusal) if _is_openai(scope) else answer_refusal(scope, refusal)


def _own_routes(admission: Admission, metrics: Metrics, gateway: Gateway) -> list[Route]:
    async def health(request: Request) -> Response:
        if "ready" in request.query_params and admission.is_draining:
            raise NotReady("The hub is going down; send requests to another one")
        if "ready" in request.query_params and not gateway.is_healthy:
            raise NotReady("The request log cannot be written; the hub's log has the reason")
        return JSONAnswer({"status": "ok", "version": version("steelyard")})

    async def render_metrics(_request: Request) -> Response:
        return Response(metrics.render(), headers={"Content-Type": _METRICS_TYPE})

    return [Route("/health", health, methods=["GET"]), Route("/metrics", render_metrics, methods=["GET"])]


def _label(scope: Scope) -> str:
    return str(getattr(scope.get("route"), "path", "other"))
