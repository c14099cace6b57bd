"""How the server's process ends: it drains on a first signal, stops on a second, and exits when its engine is dead."""

from __future__ import annotations

import json
import signal
import sys
import time
from contextlib import ExitStack
from http.client import HTTPConnection
from typing import TYPE_CHECKING

import pytest
from tests.processes import (
    BODY,
    SEMIF_SERVE,
    WAIT_S,
    Server,
    ask,
    environ_of,
    head_of,
    read_answer,
    serving,
    started,
)

if TYPE_CHECKING:
    import socket
    from collections.abc import Iterator

# A server whose engine never works again after its first failure, as a CUDA context does not.
_POISONED = """
import os
from steelyard.decide import commands, loading
from steelyard.decide.engines.fake import FakeEngine

class Poisoned(FakeEngine):
    is_dead = False
    def forward(self, tokens, slots):
        if self.is_dead:
            raise RuntimeError("CUDA error: an illegal memory access was encountered")
        try:
            return super().forward(tokens, slots)
        except RuntimeError:
            self.is_dead = True
            raise

loading.FakeEngine = Poisoned
commands.serve()
"""


@pytest.fixture
def connections() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


def begin(server: Server, connections: ExitStack, body: bytes = BODY, *, sent: int | None = None) -> socket.socket:
    """Send a request, or its head and the first *sent* bytes of its body."""
    raw = connections.enter_context(server.connect())
    raw.sendall(head_of("POST", "/decide", f"Content-Length: {len(body)}") + body[:sent])
    return raw


def in_progress(count: int):
    return lambda health: health["queue"]["in_progress"] == count


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_an_idle_server_ends_at_once_with_exit_code_0(number: int) -> None:
    with serving() as server:
        idle = HTTPConnection("127.0.0.1", server.port, timeout=WAIT_S)
        assert ask(idle, "GET", "/health").status == 200
        started = time.monotonic()
        assert server.stop(number) == 0
        assert time.monotonic() - started < 5
        idle.close()
    assert "Traceback" not in server.log.text


def test_a_first_signal_lets_all_work_end_and_takes_no_more(connections: ExitStack) -> None:
    with serving(fake_seconds=1.0) as server:
        open_before = HTTPConnection("127.0.0.1", server.port, timeout=WAIT_S)
        connections.callback(open_before.close)
        assert ask(open_before, "GET", "/health?ready").status == 200
        half_sent = begin(server, connections, sent=20)
        working = [begin(server, connections), begin(server, connections)]
        server.wait_until(in_progress(3))
        server.process.send_signal(signal.SIGTERM)
        server.log.wait_for(r"Draining: 3 requests")

        for answer in (ask(open_before, "GET", "/health?ready"), server.request("GET", "/health?ready")):
            assert (answer.status, answer.code) == (503, "not_ready")
        for answer in (ask(open_before, "POST", "/decide", BODY), server.post()):
            assert (answer.status, answer.code) == (429, "busy")
        assert server.health()["queue"]["in_progress"] == 3

        half_sent.sendall(BODY[20:])
        assert [read_answer(raw).status for raw in (*working, half_sent)] == [200, 200, 200]
        assert server.process.wait(WAIT_S) == 0
    assert "Traceback" not in server.log.text


def test_a_drain_ends_when_the_last_client_leaves(connections: ExitStack) -> None:
    with serving() as server:
        raw = begin(server, connections, sent=20)
        server.wait_until(in_progress(1))
        server.process.send_signal(signal.SIGTERM)
        server.log.wait_for("Draining")
        raw.close()
        assert server.process.wait(WAIT_S) == 0


def test_a_drain_waits_for_a_call_whose_client_has_left(connections: ExitStack) -> None:
    with serving(fake_seconds=0.5) as server:
        raw = begin(server, connections)
        server.wait_until(lambda health: health["queue"]["running_seconds"] is not None)
        server.process.send_signal(signal.SIGTERM)
        raw.close()
        assert server.process.wait(WAIT_S) == 0
    assert "Traceback" not in server.log.text


def test_a_second_signal_ends_the_process_at_once(connections: ExitStack) -> None:
    with serving(fake_seconds=1.0) as server:
        for _ in range(10):
            begin(server, connections)
        server.wait_until(in_progress(10))
        server.process.send_signal(signal.SIGTERM)
        server.log.wait_for("Draining")
        started = time.monotonic()
        server.process.send_signal(signal.SIGTERM)
        assert server.process.wait(WAIT_S) == 130
        assert time.monotonic() - started < 5, "it waited for its ten calls of one second each"


def test_a_server_whose_engine_is_dead_says_so_and_exits_for_its_supervisor() -> None:
    with serving(command=[sys.executable, "-c", _POISONED]) as server:
        assert server.post().status == 200
        assert server.post(body=BODY.replace(b"invoice", b"[fake:failure]")).code == "scoring_failed"
        assert server.process.wait(WAIT_S) == 1
        server.log.wait_for("the process ends for its supervisor")


def test_a_server_whose_engine_failed_once_goes_on() -> None:
    with serving() as server:
        for marker, status in ((b"[fake:failure]", 500), (b"[fake:nan]", 500), (b"[fake:out_of_memory]", 503)):
            assert server.post(body=BODY.replace(b"invoice", marker)).status == status
        assert server.post().status == 200
        assert server.stop() == 0


def test_ctrl_c_ends_a_server_that_is_still_loading(weights) -> None:
    weights("qwen2.5-coder-0.5b")
    with started(SEMIF_SERVE, environ_of(model="qwen2.5-coder-0.5b", device="cpu")) as (process, log):
        log.wait_for("Loading")
        process.send_signal(signal.SIGINT)
        assert process.wait(WAIT_S) == -signal.SIGINT
        log.join()
        assert "Serving" not in log.text


@pytest.mark.slow  # The server gives such a client half a minute.
def test_a_client_that_never_reads_its_answer_does_not_keep_the_server_alive(connections) -> None:
    row = json.loads(BODY)
    options = [{"id": f"{i}" * 30_000, "description": "x"} for i in range(16)]
    body = json.dumps({**row, "options": options, "orderings": "rotations"}).encode()
    with serving() as server:
        begin(server, connections, body)
        server.wait_until(lambda _health: server.metric('steelyard_decide_rows_total{scorer="shared"}') == 16)
        server.process.send_signal(signal.SIGTERM)
        assert server.process.wait(60) == 0
