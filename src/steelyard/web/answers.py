"""JSON answers, and the error envelope `{"error": {"code", "message"}}`."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING

from starlette.responses import Response

if TYPE_CHECKING:
    from collections.abc import Mapping

    from starlette.types import Message, Receive, Scope, Send

# How long, and how much of, an unread body is read and thrown away after an early answer: closing at once would reset
# the connection, and the client would lose the answer that is on its way.
_LINGER_S = 10.0
_LINGER_PAUSE_S = 2.0
_LINGER_BYTES = 64 << 20
_WATCHED = "steelyard.watched_body"


class JSONAnswer(Response):
    """A JSON response in UTF-8; NaN and infinity raise ValueError, since JSON has neither."""

    media_type = "application/json"

    def render(self, content: object) -> bytes:
        """Return *content* as JSON."""
        return json.dumps(content, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode("utf-8")


class ErrorAnswer(JSONAnswer):
    """An error in the envelope. Where the body was left unread, the connection closes after the answer."""

    def __init__(self, *, status: int, code: str, message: str, headers: Mapping[str, str]) -> None:
        super().__init__({"error": {"code": code, "message": message}}, status_code=status, headers=headers)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the answer whole, then drain what of the body is on its way."""
        if not body_is_unread(scope):
            await super().__call__(scope, receive, send)
            return
        headers = [*self.raw_headers, (b"connection", b"close")]
        await send({"type": "http.response.start", "status": self.status_code, "headers": headers})
        await send({"type": "http.response.body", "body": self.body, "more_body": True})
        await _drain(receive)
        await send({"type": "http.response.body", "body": b""})


class NoAnswer(Response):
    """What a client that has hung up gets: nothing is sent."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send nothing."""


class WatchedBody:
    """A `receive` that knows whether the request's body has come to its end."""

    def __init__(self, scope: Scope, receive: Receive) -> None:
        """Wrap *receive* and note itself in *scope*, where `body_is_unread` finds it."""
        names = {name for name, value in scope["headers"] if value != b"0"}
        self.is_unread = bool(names & {b"content-length", b"transfer-encoding"})
        self._receive = receive
        scope[_WATCHED] = self

    async def __call__(self) -> Message:
        """Receive the next event."""
        event = await self._receive()
        if not event.get("more_body", False):
            self.is_unread = False
        return event


def body_is_unread(scope: Scope) -> bool:
    """Tell whether some of the request's body is still on its way."""
    watched = scope.get(_WATCHED)
    return isinstance(watched, WatchedBody) and watched.is_unread


async def _drain(receive: Receive) -> None:
    drained = 0
    try:
        async with asyncio.timeout(_LINGER_S):
            while drained < _LINGER_BYTES:
                async with asyncio.timeout(_LINGER_PAUSE_S):
                    event = await receive()
                drained += len(event.get("body", b""))
                if not event.get("more_body", False):
                    return
    except TimeoutError:
        return
