"""A server's socket and its connections."""

from __future__ import annotations

import asyncio
import socket

import pytest
import uvicorn
from uvicorn.server import ServerState

from steelyard.hall.settings import Address, BadSetting
from steelyard.web import process
from steelyard.web.admission import Admission
from steelyard.web.process import bind, protocol_answering, serve_until_drained, url_of


def test_accepted_connections_send_small_answers_at_once():
    with (
        bind(Address("127.0.0.1", 0), variable="X_BIND") as listener,
        socket.create_connection(listener.getsockname()),
        listener.accept()[0] as accepted,
    ):
        assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY) != 0


@pytest.mark.parametrize(
    ("host", "reason"),
    [("x" * 70, "is no host name"), ("203.0.113.1", "cannot listen on 203.0.113.1:1: ")],
)
def test_an_address_that_cannot_be_listened_on_is_refused_with_its_variable(host, reason):
    with pytest.raises(BadSetting, match=f"^X_BIND: .*{reason}.*; choose another --bind$"):
        bind(Address(host, 1), variable="X_BIND")


@pytest.mark.parametrize(("host", "shown"), [("127.0.0.1", "127.0.0.1"), ("::1", "[::1]")])
def test_a_url_has_the_port_that_was_free(host, shown):
    with bind(Address(host, 0), variable="X_BIND") as listener:
        assert url_of(listener) == f"http://{shown}:{listener.getsockname()[1]}"


def test_what_lives_on_the_loop_is_closed_before_the_loop_is():
    admission = Admission(1)
    admission.is_draining = True  # As after a signal, with nothing to wait for.
    loops: list[bool] = []

    async def close() -> None:
        loops.append(asyncio.get_running_loop().is_running())

    with bind(Address("127.0.0.1", 0), variable="X_BIND") as listener:
        is_drained = serve_until_drained(
            nothing_served, listener, admission=admission, answer_malformed=lambda *_: (b"", ""), close=close
        )
    assert is_drained
    assert loops == [True]


async def nothing_served(scope, receive, send) -> None:
    raise AssertionError


def test_a_connection_that_sends_no_whole_head_in_time_is_closed(monkeypatch):
    monkeypatch.setattr(process, "_HEAD_TIMEOUT_S", 0.05)
    sent = (b"", b"GET /health HTTP/1.1\r\n")
    assert [asyncio.run(read_after(piece)) for piece in sent] == [b"", b""]


def test_what_is_no_http_is_answered_in_the_services_own_shape():
    head, _, body = asyncio.run(read_after(b"no HTTP\r\n\r\n")).partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 400 Bad Request\r\n")
    assert b"content-type: text/own" in head
    assert body.startswith(b"invalid_request|Malformed HTTP: ")


async def read_after(sent: bytes) -> bytes:
    """Return all that a client gets who sends *sent* and then waits."""
    config = uvicorn.Config(answer_nothing, lifespan="off", log_config=None)
    config.load()
    protocol = protocol_answering(lambda code, message: (f"{code}|{message}".encode(), "text/own"))
    loop = asyncio.get_running_loop()
    state = ServerState()
    async with await loop.create_server(lambda: protocol(config, state, {}), "127.0.0.1", 0) as listener:
        reader, writer = await asyncio.open_connection("127.0.0.1", listener.sockets[0].getsockname()[1])
        writer.write(sent)
        got = await asyncio.wait_for(reader.read(), timeout=30)
        writer.close()
        await writer.wait_closed()
    return got


async def answer_nothing(scope, receive, send):
    raise AssertionError("no request was whole")
