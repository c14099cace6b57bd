"""One request and its answer, watched from outside the application."""

from __future__ import annotations

import asyncio
import uuid
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from starlette.types import Message, Receive, Scope, Send

# How long, and how much of, an unread body is read and thrown away after an early answer: closing at once would reset
# the connection, and the client would lose the answer that is on its way.
_LINGER_S = 10.0
_LINGER_PAUSE_S = 2.0
_LINGER_BYTES = 64 << 20
_CLIENT_GONE = 499


class Exchange:
    """The `receive` and `send` of one request.

    It adds the request's id, remembers the answer's status, and closes the connection after an answer that came before
    the body was read.
    """

    def __init__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.request_id = uuid.uuid4().hex
        self.status = _CLIENT_GONE  # Until an answer starts.
        names = {name for name, value in scope["headers"] if value != b"0"}
        self._is_unread = bool(names & {b"content-length", b"transfer-encoding"})
        self._is_closing = False
        self._receive = receive
        self._send = send

    async def receive(self) -> Message:
        """Receive the next event."""
        event = await self._receive()
        if not event.get("more_body", False):
            self._is_unread = False
        return event

    async def send(self, message: Message) -> None:
        """Send a part of the answer; after the last part of an early one, drain what of the body is on its way."""
        if message["type"] == "http.response.start":
            message = self._start(message)
        elif self._is_closing and not message.get("more_body", False):
            await self._send({**message, "more_body": True})
            await self._drain()
            message = {"type": "http.response.body", "body": b""}
        await self._send(message)

    def _start(self, message: Message) -> Message:
        self.status = message["status"]
        self._is_closing = self._is_unread
        headers = [*message["headers"], (b"x-request-id", self.request_id.encode("ascii"))]
        return {**message, "headers": [*headers, (b"connection", b"close")] if self._is_closing else headers}

    async def _drain(self) -> None:
        drained = 0
        try:
            async with asyncio.timeout(_LINGER_S):
                while self._is_unread and drained < _LINGER_BYTES:
                    async with asyncio.timeout(_LINGER_PAUSE_S):
                        drained += len((await self.receive()).get("body", b""))
        except TimeoutError:
            return
