"""A server's process: it binds, answers what is no HTTP, and drains on a signal. It does not know what is served."""

from __future__ import annotations

import logging
import os
import socket
from typing import TYPE_CHECKING

import h11
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from steelyard.hall.settings import BadSetting
from steelyard.hall.texts import shorten

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Awaitable, Callable
    from types import FrameType

    from starlette.types import ASGIApp

    from steelyard.hall.settings import Address
    from steelyard.web.admission import Admission

    # From an error's code and message to a body in the service's own error shape, and the body's content type.
    MalformedAnswer = Callable[[str, str], tuple[bytes, str]]

logger = logging.getLogger("steelyard.web")
ANSWER_TIMEOUT_S = 30
EXIT_FORCED = 130  # For a process that a second signal ends while work goes on.
_HEAD_TIMEOUT_S = 10.0
_LINGER_S = 1.0


def bind(address: Address, *, variable: str) -> socket.socket:
    """Return a listening socket; raises BadSetting, speaking of *variable*, where there can be none."""
    try:
        family, _, _, _, target = socket.getaddrinfo(address.host, address.port, type=socket.SOCK_STREAM)[0]
        listener = socket.create_server(target[:2], family=family, backlog=2048)
        # asyncio sets this on sockets that name their protocol, which a listener made here does not; without it an
        # answer's body waits 40 ms for the acknowledgement of its head. Accepted sockets inherit it.
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    except UnicodeError:  # Python's IDNA codec cannot encode every text, such as a long one.
        raise BadSetting(f"{variable}: {shorten(address.host)} is no host name; choose another --bind") from None
    except OSError as error:
        # Resolver errors have negative numbers and texts of their own; create_server repeats the address in its text.
        reason = os.strerror(error.errno) if error.errno and error.errno > 0 else error.strerror
        raise BadSetting(
            f"{variable}: cannot listen on {shorten(address.host)}:{address.port}: {reason}; choose another --bind"
        ) from None
    return listener


def url_of(listener: socket.socket) -> str:
    """Return where *listener* listens, with the port that it really has."""
    host, port = listener.getsockname()[:2]
    return f"http://{f'[{host}]' if ':' in host else host}:{port}"


def serve_until_drained(
    app: ASGIApp,
    listener: socket.socket,
    *,
    admission: Admission,
    answer_malformed: MalformedAnswer,
    must_drain: Callable[[], bool] = lambda: False,
    close: Callable[[], Awaitable[object]] | None = None,
) -> bool:
    """Serve *app* until a signal, or *must_drain* (asked many times a second), and the end of all admitted work.

    *close* ends what lives on the event loop, such as connections to other servers, before the loop does.

    Tell whether it came to that end. False says that a second signal cut it short: whatever still runs would be waited
    for at the interpreter's exit, so the caller must end with `os._exit(EXIT_FORCED)`.
    """
    process = _Process(_config(app, answer_malformed), admission=admission, must_drain=must_drain, close=close)
    process.run(sockets=[listener])
    return not process.force_exit


def _config(app: ASGIApp, answer_malformed: MalformedAnswer) -> uvicorn.Config:
    return uvicorn.Config(
        app,
        http=protocol_answering(answer_malformed),
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
        timeout_graceful_shutdown=ANSWER_TIMEOUT_S,
    )


def protocol_answering(answer_malformed: MalformedAnswer) -> type[H11Protocol]:
    """Return HTTP/1.1 whose answer to a request that is no HTTP is the service's own too."""

    class OwnProtocol(_Protocol):
        def _malformed(self, message: str) -> tuple[bytes, str]:
            return answer_malformed("invalid_request", message)

    return OwnProtocol


class _Protocol(H11Protocol):
    """HTTP/1.1 whose heads must arrive in time.

    Connections that send none would take every file descriptor, no token needed.
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

    def _malformed(self, message: str) -> tuple[bytes, str]:
        raise NotImplementedError

    def send_400_response(self, msg: str) -> None:
        """Answer a request that h11 could not read, unless it already has its answer, and close."""
        if self.conn.our_state not in {h11.IDLE, h11.SEND_RESPONSE}:
            self.transport.close()
            return
        body, content_type = self._malformed(f"Malformed HTTP: {msg}")
        headers = [
            ("content-type", content_type),
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
    """uvicorn, but a first signal lets every admitted request end while `is_draining` already turns new ones away."""

    def __init__(
        self,
        config: uvicorn.Config,
        *,
        admission: Admission,
        must_drain: Callable[[], bool],
        close: Callable[[], Awaitable[object]] | None,
    ) -> None:
        super().__init__(config)
        self._admission = admission
        self._must_drain = must_drain
        self._close = close
        self._is_drain_announced = False

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:  # noqa: ARG002  # uvicorn's signature.
        """Drain on the first signal, exit at once on the second. A signal handler must not log: it may interrupt it."""
        if self._admission.is_draining:
            self.should_exit = self.force_exit = True
        self._admission.is_draining = True

    async def on_tick(self, counter: int) -> bool:
        """Tell uvicorn to exit once the drain, which *must_drain* may start too, has come to its end."""
        if self._must_drain():
            self._admission.is_draining = True
        if self._admission.is_draining:
            self._announce_drain()
            self.should_exit = self.should_exit or self._admission.in_progress == 0
        return await super().on_tick(counter)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Close what the callers left, then what the service has on this loop."""
        await super().shutdown(sockets)
        if self._close is not None:
            await self._close()

    def _announce_drain(self) -> None:
        if not self._is_drain_announced:
            self._is_drain_announced = True
            logger.info("Draining: %d requests in progress", self._admission.in_progress)
