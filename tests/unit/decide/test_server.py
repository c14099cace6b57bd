"""The server's socket."""

from __future__ import annotations

import socket

from steelyard.decide.server import _bind
from steelyard.decide.settings import Address


def test_accepted_connections_send_small_answers_at_once():
    with (
        _bind(Address("127.0.0.1", 0)) as listener,
        socket.create_connection(listener.getsockname()),
        listener.accept()[0] as accepted,
    ):
        assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY) != 0
