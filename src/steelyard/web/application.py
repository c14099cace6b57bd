"""Starlette as our services run it: paths are exact, and what nobody foresaw is answered and logged."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.middleware.exceptions import ExceptionMiddleware
from starlette.requests import Request
from starlette.responses import Response

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from starlette.routing import BaseRoute

logger = logging.getLogger("steelyard.web")
Handler = Callable[[Request, Exception], Awaitable[Response]]


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
