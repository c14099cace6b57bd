"""The outermost layer of a service: a request id, the guard, the count and one log line per request."""

from __future__ import annotations

import logging
import time
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from steelyard.hall.errors import SteelyardError
from steelyard.hall.texts import shorten
from steelyard.web.exchange import Exchange

if TYPE_CHECKING:
    from collections.abc import Collection

    from starlette.responses import Response
    from starlette.types import ASGIApp, Receive, Scope, Send

logger = logging.getLogger("steelyard.web")
# Raises RequestRefused where a request may not pass; it may put who asks into scope["state"].
Guard = Callable[["Scope"], Awaitable[None]]
# From what the guard raised, and the scope of what was asked, to the answer in the service's own error shape.
Answer = Callable[[Exception, "Scope"], "Response"]
# Names a request's path for the log and the metrics. It is asked after the answer, so that it can read what the router
# left in the scope, and gives one of few names: `other` where a path is not known.
Label = Callable[["Scope"], str]


class Gate:
    """Lets a request through to *app* if *guard* does not refuse it; *answer* answers whatever the guard raises.

    The application finds the request's id, which the answer has as x-request-id, in scope["state"]["request_id"].
    *on_answer* hears the label and the status of every answer.
    """

    def __init__(
        self,
        app: ASGIApp,
        *,
        guard: Guard,
        answer: Answer,
        label: Label,
        on_answer: Callable[[str, int], object],
    ) -> None:
        self._app = app
        self._guard = guard
        self._answer = answer
        self._label = label
        self._on_answer = on_answer

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request; this is the only kind of scope that the server is run with."""
        started = time.monotonic()
        exchange = Exchange(scope, receive, send)
        scope.setdefault("state", {})["request_id"] = exchange.request_id
        try:
            await self._serve(scope, exchange)
        finally:
            path = self._label(scope)
            self._on_answer(path, exchange.status)
            ms = (time.monotonic() - started) * 1000
            method = shorten(scope["method"], limit=16)  # A caller may send any word, however long.
            logger.info("%s %s %s %d %.1f ms", exchange.request_id, method, path, exchange.status, ms)

    async def _serve(self, scope: Scope, exchange: Exchange) -> None:
        app = self._app
        try:
            await self._guard(scope)
        except Exception as error:  # A guard that fails lets nobody in, and its callers get an answer all the same.
            if not isinstance(error, SteelyardError):
                logger.error("The guard failed", exc_info=error)  # noqa: TRY400  # It would log the same.
            app = self._answer(error, scope)
        await app(scope, exchange.receive, exchange.send)


def label_of_paths(paths: Collection[str]) -> Label:
    """Return the label of a service whose paths hold no ids: a known path is its own name."""
    return lambda scope: scope["path"] if scope["path"] in paths else "other"
