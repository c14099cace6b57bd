"""Starlette as our services run it: paths are exact, and what nobody foresaw is answered and logged."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.exceptions import ExceptionMiddleware
from starlette.requests import Request
from starlette.responses import Response

from steelyard.hall.errors import SteelyardError
from steelyard.web.answers import NoAnswer
from steelyard.web.auth import token_guard
from steelyard.web.errors import ClientGone, MethodNotAllowed, NotFound
from steelyard.web.gate import Gate, label_of_paths

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from starlette.routing import BaseRoute, Route

logger = logging.getLogger("steelyard.web")
Handler = Callable[[Request, Exception], Awaitable[Response]]


def token_application(
    routes: Sequence[Route],
    *,
    token: str,
    answer_for: Callable[[Exception], Response],
    on_answer: Callable[[str, int], object],
) -> Gate:
    """Return a service behind one bearer token, whose paths hold no ids and whose health is open to anybody.

    *answer_for* answers every error in the service's own shape, one that it does not know too; *on_answer* hears the
    path and the status of every answer.
    """

    async def answer(_request: Request, error: Exception) -> Response:
        return NoAnswer() if isinstance(error, ClientGone) else answer_for(error)

    async def answer_router(_request: Request, error: Exception) -> Response:
        status, headers = (error.status_code, error.headers) if isinstance(error, HTTPException) else (405, None)
        refusal = answer_for(NotFound() if status == 404 else MethodNotAllowed())
        refusal.headers.update(headers or {})
        return refusal

    handlers: Mapping[type[Exception], Handler] = {
        HTTPException: answer_router,
        SteelyardError: answer,
        ClientGone: answer,
    }
    return Gate(
        build_application(routes, handlers=handlers, answer_unforeseen=answer),
        guard=token_guard(token=token, open_routes={("GET", "/health"), ("HEAD", "/health")}),
        answer=lambda refusal, _scope: answer_for(refusal),
        label=label_of_paths({route.path for route in routes}),
        on_answer=on_answer,
    )


def build_application(
    routes: Sequence[BaseRoute], *, handlers: Mapping[type[Exception], Handler], answer_unforeseen: Handler
) -> Starlette:
    """Return the application; *handlers* answer the errors that endpoints and the router raise on purpose."""
    application = Starlette(
        routes=routes, exception_handlers=dict(handlers), middleware=[unforeseen_middleware(answer_unforeseen)]
    )
    application.router.redirect_slashes = False  # Paths are exact: a trailing slash is another path.
    return application


def unforeseen_middleware(answer: Handler) -> Middleware:
    """Return what answers, and logs, what no handler knows, such as a failure while the response is built.

    Starlette answers what is left over and then raises it again, which closes the connection; this one does not.
    """

    async def log_and_answer(request: Request, error: Exception) -> Response:
        logger.error("Unforeseen failure", exc_info=error)
        return await answer(request, error)

    return Middleware(ExceptionMiddleware, handlers={Exception: log_and_answer})
