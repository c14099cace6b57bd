"""What the hub tells of itself: health, metrics, and the OpenAPI document."""

from __future__ import annotations

from importlib.metadata import version
from typing import TYPE_CHECKING

from starlette.routing import Route

from steelyard.hub.rest.checks import Allowed
from steelyard.hub.rest.openapi import plain_operation
from steelyard.web.answers import JSONAnswer, MetricsAnswer
from steelyard.web.errors import NotReady

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from starlette.requests import Request
    from starlette.responses import Response

    from steelyard.hub.metrics import Metrics
    from steelyard.web.admission import Admission

OPEN_PATHS = ("/health", "/openapi.json")


def about_routes(
    admission: Admission, metrics: Metrics, *, is_healthy: Callable[[], bool], document: object
) -> list[Route]:
    """Return the routes; *is_healthy* tells whether embedding requests can be logged."""
    may_watch = Allowed("viewer", "operator")

    async def health(request: Request) -> Response:
        if "ready" in request.query_params and admission.is_draining:
            raise NotReady("The hub is going down; send requests to another one")
        if "ready" in request.query_params and not is_healthy():
            raise NotReady("The request log cannot be written; the hub's log has the reason")
        return JSONAnswer({"status": "ok", "version": version("steelyard")})

    async def show_metrics(request: Request) -> Response:
        await may_watch(request)
        return MetricsAnswer(metrics.render())

    async def show_document(_request: Request) -> Response:
        return JSONAnswer(document)

    return [
        Route("/health", health, methods=["GET"]),
        Route("/metrics", show_metrics, methods=["GET"]),
        Route("/openapi.json", show_document, methods=["GET"]),
    ]


def about_operations() -> Mapping[str, object]:
    """Return the routes' part of the OpenAPI document, by path."""
    health = {
        "type": "object",
        "required": ["status", "version"],
        "properties": {"status": {"const": "ok"}, "version": {"type": "string"}},
    }
    ready = {
        "name": "ready",
        "in": "query",
        "allowEmptyValue": True,
        "schema": {"type": "string"},
        "description": "With it, in whatever value, a hub that goes down, or cannot log, answers 503.",
    }
    return {
        "/health": {
            "get": plain_operation(
                "get_health",
                summary="Tell whether this process serves.",
                content={"application/json": {"schema": health, "example": {"status": "ok", "version": "0.1.0"}}},
                parameters=[ready],
            )
        },
        "/metrics": {
            "get": plain_operation(
                "get_metrics",
                summary="Get this process's metrics in Prometheus's text format.",
                content={"text/plain": {"schema": {"type": "string"}}},
                statuses=(403,),
            )
        },
        "/openapi.json": {
            "get": plain_operation(
                "get_openapi",
                summary="Get this document.",
                content={"application/json": {"schema": {"type": "object"}}},
            )
        },
    }
