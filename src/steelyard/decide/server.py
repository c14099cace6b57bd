"""The server's process: it binds, serves, drains on SIGTERM and ends when its engine is poisoned."""

from __future__ import annotations

import json
import logging
import os
import socket
import threading
from typing import TYPE_CHECKING

import h11
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from steelyard.decide.app import build_server
from steelyard.decide.startup import StartRefused
from steelyard.hall.texts import shorten

if TYPE_CHECKING:
    import asyncio
    from types import FrameType

    from steelyard.decide.domain.ports import Engine
    from steelyard.decide.settings import Address, Settings
    from steelyard.web.admission import Admission

logger = logging.getLogger("steelyard.decide")
_ANSWER_TIMEOUT_S = 30
_HEAD_TIMEOUT_S = 10.0
_LINGER_S = 1.0
EXIT_POISONED = 1
EXIT_FORCED = 130


def serve(settings: Settings, engine: Engine) -> int:
    """Serve a started *engine* until a signal, and return the exit code; raises StartRefused where no port is free.

    The port binds here, after everything that could refuse the start.
    """
    listener = _bind(settings.bind)
    host, port = listener.getsockname()[:2]
    poisoned = threading.Event()
    server = build_server(settings, engine, on_poisoned=poisoned.set)
    process = _Process(
        uvicorn.Config(
            server.app,
            http=EnvelopeProtocol,
            ws="none",
            lifespan="off",
            log_config=None,
            access_log=False,
            server_header=False,
            # What uvicorn would otherwise read from the environment: WEB_CONCURRENCY and FORWARDED_ALLOW_IPS.
            workers=1,
            proxy_headers=False,
            forwarded_allow_ips="",
            # Accepted work is waited for without limit before this begins: it bounds clients that do not read.
            timeout_graceful_shutdown=_ANSWER_TIMEOUT_S,
        ),
        admission=server.admission,
        poisoned=poisoned,
    )
    logger.info("Serving %s on http://%s:%d", settings.model, f"[{host}]" if ":" in host else host, port)
    process.run(sockets=[listener])
    if process.force_exit:
        os._exit(EXIT_FORCED)  # A second signal: the scoring thread cannot be stopped, and would be waited for.
    server.thread.close()
    return EXIT_POISONED if poisoned.is_set() else 0


def _bind(address: Address) -> socket.socket:
    try:
        family, _, _, _, target = socket.getaddrinfo(address.host, address.port, type=socket.SOCK_STREAM)[0]
        listener = socket.create_server(target[:2], family=family, backlog=2048)
        # asyncio sets this on sockets that name their protocol, which a listener made here does not; without it an
        # answer's body waits 40 ms for the acknowledgement of its head. Accepted sockets inherit it.
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    except UnicodeError:  # Python's IDNA codec cannot encode every text, such as a long one.
        raise StartRefused(f"SEMIF_BIND: {shorten(address.host)} is no host name; choose another --bind") from None
    except OSError as error:
        # Resolver errors have negative numbers and texts of their own; create_server repeats the address in its text.
        reason = os.strerror(error.errno) if error.errno and error.errno > 0 else error.strerror
        raise StartRefused(
            f"SEMIF_BIND: cannot listen on {shorten(address.host)}:{address.port}: {reason}; choose another --bind"
        ) from None
    return listener


class EnvelopeProtocol(H11Protocol):
    """HTTP/1.1 whose answer to a request that is no HTTP is in the error envelope too.

    A request's head must arrive in time: connections that send none would take every file descriptor, no token needed.
    """

    _head_timer: asyncio.TimerHandle | None = None
    _is_refused = False

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # As uvicorn has it.
        """Accept a connection and wait for its first head."""
        super().connection_made(transport)
        self._watch_head()

    def data_received(self, data: bytes) -> None:
        """Read what came; the time for a later request's head runs from its first byte."""
        if self._is_refused:  # What follows a request that is no HTTP is read and dropped.
            return
        super().data_received(data)
        self._watch_head()

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the connection."""
        self._stop_head_timer()
        super().connection_lost(exc)

    def _watch_head(self) -> None:
        if self.conn.their_state is not h11.IDLE:
            self._stop_head_timer()
        elif self._head_timer is None:
            self._head_timer = self.loop.call_later(_HEAD_TIMEOUT_S, self._close_headless)

    def _stop_head_timer(self) -> None:
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None

    def _close_headless(self) -> None:
        self._head_timer = None
        if self.conn.their_state is h11.IDLE:
            self.transport.close()

    def send_400_response(self, msg: str) -> None:
        """Answer a request that h11 could not read, unless it already has its answer, and close."""
        if self.conn.our_state not in {h11.IDLE, h11.SEND_RESPONSE}:
            self.transport.close()
            return
        body = json.dumps({"error": {"code": "invalid_request", "message": f"Malformed HTTP: {msg}"}}).encode("ascii")
        headers = [
            ("content-type", "application/json"),
            ("content-length", str(len(body))),
            ("connection", "close"),
        ]
        response = h11.Response(status_code=400, headers=headers, reason=b"Bad Request")
        for event in (response, h11.Data(data=body), h11.EndOfMessage()):
            self.transport.write(self.conn.send(event) or b"")
        # Closing at once would reset a connection that still brings data, and a reset may overtake the answer.
        self._is_refused = True
        self.transport.write_eof()
        self.loop.call_later(_LINGER_S, self.transport.close)


class _Process(uvicorn.Server):
    """uvicorn, but a first signal lets every accepted request end while `/health?ready` already says no."""

    def __init__(self, config: uvicorn.Config, *, admission: Admission, poisoned: threading.Event) -> None:
        super().__init__(config)
        self._admission = admission
        self._poisoned = poisoned
        self._is_drain_announced = False

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:  # noqa: ARG002  # uvicorn's signature.
        """Drain on the first signal, exit at once on the second. A signal handler must not log: it may interrupt it."""
        if self._admission.is_draining:
            self.should_exit = self.force_exit = True
        self._admission.is_draining = True

    async def on_tick(self, counter: int) -> bool:
        """Tell uvicorn to exit once the drain has come to its end; a poisoned engine starts one."""
        if self._poisoned.is_set():
            self._admission.is_draining = True
        if self._admission.is_draining:
            self._announce_drain()
            self.should_exit = self.should_exit or self._admission.in_progress == 0
        return await super().on_tick(counter)

    def _announce_drain(self) -> None:
        if not self._is_drain_announced:
            self._is_drain_announced = True
            logger.info("Draining: %d requests in progress", self._admission.in_progress)
