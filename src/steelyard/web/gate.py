"""The outermost layer of a service: a request id, the bearer token, the count and one log line per request."""

from __future__ import annotations

import logging
import time
import uuid
from typing import TYPE_CHECKING

from steelyard.web.answers import ErrorAnswer, WatchedBody
from steelyard.web.auth import check_bearer
from steelyard.web.errors import Unauthorized

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from starlette.types import ASGIApp, Message, Receive, Scope, Send

logger = logging.getLogger("steelyard.web")
_CLIENT_GONE = 499


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
        answer = _Answer(send)
        watched = WatchedBody(scope, receive)
        try:
            await self._serve(scope, watched, answer)
        finally:
            path = scope["path"] if scope["path"] in self._known_paths else "other"
            self._on_answer(path, answer.status)
            milliseconds = (time.monotonic() - started) * 1000
            logger.info("%s %s %s %d %.1f ms", answer.request_id, scope["method"], path, answer.status, milliseconds)

    async def _serve(self, scope: Scope, receive: WatchedBody, send: _Answer) -> None:
        try:
            if (scope["method"], scope["path"]) not in self._open_routes:
                check_bearer(scope, token=self._token)
            await self._app(scope, receive, send)
        except Unauthorized as error:
            answer = ErrorAnswer(status=error.status, code=error.code, message=str(error), headers=error.headers)
            await answer(scope, receive, send)


class _Answer:
    """A `send` that remembers the status and adds the request's id."""

    def __init__(self, send: Send) -> None:
        self.request_id = uuid.uuid4().hex
        self.status = _CLIENT_GONE
        self._send = send

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            message["headers"] = [*message["headers"], (b"x-request-id", self.request_id.encode("ascii"))]
        await self._send(message)
