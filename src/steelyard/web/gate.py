"""The outermost layer of a service: a request id, the bearer token, the count and one log line per request."""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING

from steelyard.hall.texts import shorten
from steelyard.web.answers import ErrorAnswer
from steelyard.web.auth import check_bearer
from steelyard.web.errors import Unauthorized
from steelyard.web.exchange import Exchange

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from starlette.types import ASGIApp, Receive, Scope, Send

logger = logging.getLogger("steelyard.web")


class Gate:
    """Lets a request through to *app* if it carries *token* or is one of *open_routes* (pairs of method and path).

    *on_answer* hears the path, `other` where it is not in *known_paths*, and the status of every answer.
    """

    def __init__(
        self,
        app: ASGIApp,
        *,
        token: str,
        open_routes: Collection[tuple[str, str]],
        known_paths: Collection[str],
        on_answer: Callable[[str, int], object],
    ) -> None:
        self._app = app
        self._token = token
        self._open_routes = open_routes
        self._known_paths = known_paths
        self._on_answer = on_answer

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request; this is the only kind of scope that the server is run with."""
        started = time.monotonic()
        exchange = Exchange(scope, receive, send)
        try:
            await self._serve(scope, exchange)
        finally:
            path = scope["path"] if scope["path"] in self._known_paths else "other"
            self._on_answer(path, exchange.status)
            ms = (time.monotonic() - started) * 1000
            method = shorten(scope["method"], limit=16)  # A caller may send any word, however long.
            logger.info("%s %s %s %d %.1f ms", exchange.request_id, method, path, exchange.status, ms)

    async def _serve(self, scope: Scope, exchange: Exchange) -> None:
        try:
            if (scope["method"], scope["path"]) not in self._open_routes:
                check_bearer(scope, token=self._token)
            await self._app(scope, exchange.receive, exchange.send)
        except Unauthorized as error:
            answer = ErrorAnswer(status=error.status, code=error.code, message=str(error), headers=error.headers)
            await answer(scope, exchange.receive, exchange.send)
