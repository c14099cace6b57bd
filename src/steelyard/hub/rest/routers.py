"""The router of a slice's endpoints."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fastapi import APIRouter

from steelyard.hub.rest.bodies import StrictRoute

if TYPE_CHECKING:
    from fastapi.routing import APIRoute

PREFIX = "/api/v1"


def name_of(route: APIRoute) -> str:
    """Return an operation's id, which is its function's name."""
    return route.name


def rest_router(*, tag: str, responses: dict[int | str, dict[str, Any]] | None = None) -> APIRouter:
    """Return a router whose routes are whole: the application takes them as they are.

    FastAPI's own `include_router` would make each of them a second time, which takes as long as all else of a start.
    """
    return APIRouter(
        prefix=PREFIX,
        route_class=StrictRoute,
        tags=[tag],
        responses=responses,
        redirect_slashes=False,
        generate_unique_id_function=name_of,
    )
