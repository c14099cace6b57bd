"""The server's socket."""

from __future__ import annotations

import asyncio
import socket

import uvicorn
from uvicorn.server import ServerState

from steelyard.decide import server
from steelyard.decide.server import EnvelopeProtocol, _bind
from steelyard.decide.settings import Address


def test_accepted_connections_send_small_answers_at_once():
    with (
        _bind(Address("127.0.0.1", 0)) as listener,
        socket.create_connection(listener.getsockname()),
        listener.accept()[0] as accepted,
    ):
        assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY) != 0


def test_a_connection_that_sends_no_whole_head_in_time_is_closed(monkeypatch):
    monkeypatch.setattr(server, "_HEAD_TIMEOUT_S", 0.05)
    config = uvicorn.Config(answer_nothing, lifespan="off", log_config=None)
    config.load()

    async def what_silent_and_dripping_clients_get() -> list[bytes]:
        loop = asyncio.get_running_loop()
        state = ServerState()
        listener = await loop.create_server(lambda: EnvelopeProtocol(config, state, {}), "127.0.0.1", 0)
        async with listener:
            port = listener.sockets[0].getsockname()[1]
            got = []
            for sent in (b"", b"GET /health HTTP/1.1\r\n"):
                reader, writer = await asyncio.open_connection("127.0.0.1", port)
                writer.write(sent)
                got.append(await asyncio.wait_for(reader.read(), timeout=30))
                writer.close()
                await writer.wait_closed()
        return got

    assert asyncio.run(what_silent_and_dripping_clients_get()) == [b"", b""]


async def answer_nothing(scope, receive, send):
    raise AssertionError("no request was whole")
