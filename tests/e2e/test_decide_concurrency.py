"""One inference at a time, whoever leaves: real clients that come together, hang up and are refused."""

from __future__ import annotations

import json
import random
import socket
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import pytest
from tests.processes import BODY, ROW, TOKEN, Server, head_of, is_closed, read_answer, serving

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

CALL_S = 0.7
ROWS = 'steelyard_decide_rows_total{scorer="direct"}'
TOKENS = "steelyard_decide_evaluated_tokens_total"


@pytest.fixture
def server() -> Iterator[Server]:
    """A server that takes CALL_S for each call of its engine."""
    with serving(fake_seconds=CALL_S) as server:
        yield server


def begin(server: Server, path: str = "/decide", body: bytes = BODY) -> socket.socket:
    """Send a whole request and leave the answer for later."""
    raw = server.connect()
    raw.sendall(head_of("POST", path, f"Content-Length: {len(body)}") + body)
    return raw


def is_scoring(in_progress: int = 1) -> Callable[[Any], bool]:
    def check(health: Any) -> bool:
        queue = health["queue"]
        return bool(queue["in_progress"] == in_progress and queue["running_seconds"] is not None)

    return check


def is_idle(health: Any) -> bool:
    return bool(health["queue"]["in_progress"] == 0 and health["queue"]["running_seconds"] is None)


def assert_nothing_went_wrong(server: Server) -> None:
    assert "Traceback" not in server.log.text
    assert "ERROR" not in server.log.text
    assert "overlapped" not in server.log.text


def test_requests_that_come_together_are_scored_one_after_another(server: Server) -> None:
    started = time.monotonic()
    with ThreadPoolExecutor(4) as clients:
        answers = list(clients.map(lambda _: server.post(), range(4)))
    assert [answer.status for answer in answers] == [200] * 4
    assert time.monotonic() - started >= 4 * CALL_S
    assert_nothing_went_wrong(server)


def test_a_client_that_hangs_up_in_the_middle_lets_no_two_calls_overlap(server: Server) -> None:
    with begin(server):
        server.wait_until(is_scoring())
    answers = [server.post(), server.post("/decide/shared", json.dumps({"state": "s", "decisions": [ROW]}).encode())]
    assert [answer.status for answer in answers] == [200, 200]
    assert server.metric('steelyard_decide_requests_total{path="/decide",status="499"}') == 1
    assert server.metric('steelyard_decide_requests_total{path="/decide",status="500"}') == 0
    assert_nothing_went_wrong(server)


def test_a_queued_client_that_hangs_up_frees_its_place_at_once_and_is_never_scored(server: Server) -> None:
    with begin(server) as first:
        server.wait_until(is_scoring())
        with begin(server):
            server.wait_until(is_scoring(in_progress=2))
        health = server.wait_until(lambda health: health["queue"]["in_progress"] == 1)
        assert health["queue"]["running_seconds"] is not None, "the first call ended before the place was free"
        scored = read_answer(first)
    assert scored.status == 200
    last = server.post()
    assert server.metric(ROWS) == 2
    assert server.metric(TOKENS) == scored.json["input_tokens"] + last.json["input_tokens"]
    assert_nothing_went_wrong(server)


def test_a_place_that_is_being_scored_is_free_when_scoring_ends_and_no_sooner() -> None:
    with serving(fake_seconds=CALL_S, max_queue=1) as server:
        with begin(server):
            server.wait_until(is_scoring())
        server.wait_until(lambda _: server.metric('steelyard_decide_requests_total{path="/decide",status="499"}') == 1)
        health = server.health()
        assert is_scoring()(health), "the hung-up call no longer holds its place"
        assert server.post().status == 429
        server.wait_until(is_idle)
        assert server.metric(ROWS) == 1
        assert server.post().status == 200
        assert_nothing_went_wrong(server)


def test_a_full_queue_answers_429_before_the_body_is_read_and_closes() -> None:
    with serving(fake_seconds=CALL_S, max_queue=1) as server, begin(server) as first:
        server.wait_until(is_scoring())
        with server.connect() as second:
            second.sendall(head_of("POST", "/decide", "Content-Length: 500000"))
            refused = read_answer(second)
            assert (refused.status, refused.code) == (429, "busy")
            assert int(refused.headers["retry-after"]) >= 1
            assert refused.headers["connection"] == "close"
            assert server.request("POST", "/decide").status == 429
            assert server.request("POST", "/decide", None, Authorization="Bearer wrong").status == 401
            assert server.request("GET", "/metrics").status == 200
            assert is_closed(second)
        assert read_answer(first).status == 200


def test_health_answers_while_a_call_is_scoring_and_shows_its_age(server: Server) -> None:
    assert server.health()["queue"]["running_seconds"] is None
    with begin(server) as raw:
        young = server.wait_until(is_scoring())
        old = server.wait_until(lambda health: health["queue"]["running_seconds"] != young["queue"]["running_seconds"])
        assert 0 <= young["queue"]["running_seconds"] < old["queue"]["running_seconds"] < CALL_S + 1
        assert server.request("GET", "/health?ready").status == 200
        assert read_answer(raw).status == 200


def test_a_body_on_its_way_takes_a_place_and_gives_it_back_when_its_client_leaves() -> None:
    with serving(max_queue=1) as server:
        with server.connect() as raw:
            raw.sendall(head_of("POST", "/decide", "Content-Length: 100") + b"{")
            server.wait_until(lambda health: health["queue"]["in_progress"] == 1)
            assert server.post().status == 429
        server.wait_until(is_idle)
        assert server.post().status == 200
        assert_nothing_went_wrong(server)


class _Clients:
    """Clients of every kind; each returns whether what it saw is right."""

    def __init__(self, server: Server, seed: int) -> None:
        self._server = server
        self._chance = random.Random(seed)

    def one(self, n: int) -> str:
        kind = self._chance.choice(
            ["plain"] * 4 + ["averaged", "shared", "broken", "stranger", "large", "hasty", "silent"]
        )
        try:
            right = getattr(self, f"_{kind}")(n)
        except OSError as error:
            return f"{kind}: {error!r}"
        return "" if right else f"{kind}: a wrong answer"

    def _plain(self, n: int) -> bool:
        answer = self._server.post(body=json.dumps({**ROW, "id": f"n{n}"}).encode())
        return answer.status == 429 or (answer.status == 200 and answer.json["id"] == f"n{n}")

    def _averaged(self, n: int) -> bool:
        answer = self._server.post(body=json.dumps({**ROW, "id": f"n{n}", "orderings": "all"}).encode())
        return answer.status == 429 or answer.json["orderings"][1]["id"] == f"n{n}#o1"

    def _shared(self, n: int) -> bool:
        decisions = [{**ROW, "id": f"n{n}-{k}"} for k in range(5)]
        answer = self._server.post("/decide/shared", json.dumps({"state": f"s{n}", "decisions": decisions}).encode())
        return answer.status == 429 or [r["id"] for r in answer.json["results"]] == [d["id"] for d in decisions]

    def _broken(self, _n: int) -> bool:
        return self._server.post(body=b'{"id": ').status in {422, 429}

    def _stranger(self, _n: int) -> bool:
        return self._server.post(Authorization="Bearer no").code == "unauthorized"

    def _large(self, _n: int) -> bool:
        return self._server.post(body=b" " * 1_200_000).status in {413, 429}

    def _hasty(self, _n: int) -> bool:
        with begin(self._server):
            return True

    def _silent(self, _n: int) -> bool:
        with self._server.connect() as raw:
            raw.sendall(head_of("POST", "/decide", "Content-Length: 10"))
            raw.shutdown(socket.SHUT_WR)
            with suppress(OSError):
                raw.recv(100)
            return True


def stress(requests: int, clients: int, seed: int) -> None:
    with serving(fake_seconds=0.005, max_queue=16) as server:
        crowd = _Clients(server, seed)
        with ThreadPoolExecutor(clients) as pool:
            wrong = [complaint for complaint in pool.map(crowd.one, range(requests)) if complaint]
        assert wrong == []
        server.wait_until(is_idle)
        assert server.post().status == 200
        for status in ("500", "503"):
            assert f'status="{status}"' not in server.request("GET", "/metrics").body.decode()
        assert TOKEN not in server.log.text
        assert_nothing_went_wrong(server)
        assert server.stop() == 0


def test_forty_clients_of_every_kind_leave_the_server_well() -> None:
    stress(requests=400, clients=40, seed=1)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2, 6))
def test_many_more_requests_leave_the_server_well(seed: int) -> None:
    stress(requests=5000, clients=64, seed=seed)
