"""What an embedding server can do wrong, over real sockets: each ends in its status, and in a row that tells."""

from __future__ import annotations

import threading
import time

import pytest
from tests.gateway.serving import serving
from tests.gateway.upstreams import answer_to
from tests.gateway.world import make_world

TEXT = "a text that nobody may see"


@pytest.fixture
def databases(sqlite_databases):
    """One kind is enough: an embedding server's faults know no database."""
    return sqlite_databases


def with_vector(body, vector):
    return answer_to(body, data=[{"index": index, "embedding": vector} for index, _ in enumerate(body["input"])])


FAULTS = {
    "wrong dimension": (lambda h, b: h.json(with_vector(b, [1.0] * 3)), 502, "wrong_dimension"),
    "NaN": (lambda h, b: h.json(with_vector(b, [1.0, float("nan"), 1.0, 1.0])), 502, "not_finite"),
    "null for NaN": (lambda h, b: h.json(with_vector(b, [None] * 4)), 502, "not_finite"),
    "too few": (lambda h, b: h.json(answer_to(b, data=[])), 502, "upstream_bad_answer"),
    "garbage": (lambda h, b: h.bytes(b"<html>503</html>"), 502, "upstream_bad_answer"),
    "huge": (lambda h, b: h.bytes(b" " * 200_000), 502, "upstream_bad_answer"),
    "compressed": (lambda h, b: h.bytes(b"x", Content_Encoding="gzip"), 502, "upstream_bad_answer"),
    "drops": (lambda h, b: h.drop(), 502, "upstream_unreachable"),
    "cut short": (lambda h, b: (h.bytes(b"{", Content_Length="9"), h.drop()), 502, "upstream_unreachable"),
    "429": (lambda h, b: h.json({}, status=429), 503, "upstream_overloaded"),
    "503": (lambda h, b: h.json({}, status=503), 503, "upstream_overloaded"),
    "500": (lambda h, b: h.json({"error": TEXT}, status=500), 502, "upstream_failed"),
    "400": (lambda h, b: h.json({"error": TEXT}, status=400), 502, "upstream_refused"),
    "404": (lambda h, b: h.json({"error": "no such model"}, status=404), 502, "upstream_refused"),
    "redirect": (lambda h, b: h.bytes(b"", status=307, Location="http://127.0.0.1:1/"), 502, "upstream_refused"),
    "too long": (lambda h, b: h.json({"error": "maximum context length"}, status=400), 422, "input_too_long"),
    "413": (lambda h, b: h.json({"error": TEXT}, status=413), 422, "input_too_long"),
    "too long, with 500": (lambda h, b: h.json({"error": "too large to process"}, status=500), 422, "input_too_long"),
}  # fmt: skip


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_has_its_status_and_its_row(served, upstream, fault):
    reply, status, code = FAULTS[fault]
    upstream.then(reply)
    answer = served.post({"model": "stable", "input": TEXT})
    assert (answer.status_code, answer.json()["error"]["code"]) == (status, code)
    row = served.world.row()
    assert (row["status"], row["error_code"], row["request_id"]) == ("failed", code, answer.headers["x-request-id"])
    assert row["latency_ms"] > 0
    assert TEXT not in answer.text
    assert ("retry-after" in answer.headers) == (status == 503)


@pytest.mark.parametrize("fault", [FAULTS["drops"][0], FAULTS["429"][0], FAULTS["503"][0]], ids=["drops", "429", "503"])
def test_what_may_pass_is_asked_once_more_and_has_one_row(served, upstream, fault):
    upstream.then(fault, lambda handler, body: handler.json(answer_to(body)))
    assert served.post({"model": "stable", "input": "a"}).status_code == 200
    assert len(upstream.asked) == 2
    assert served.world.row()["status"] == "completed"


def test_a_connection_that_the_server_closed_meanwhile_costs_nobody_an_answer(served, upstream):
    def answer_and_close(handler, body):
        handler.json(answer_to(body))
        handler.close_connection = True

    upstream.then(answer_and_close)
    assert [served.post({"model": "stable", "input": "a"}).status_code for _ in range(5)] == [200] * 5
    assert [row["status"] for row in served.world.rows()] == ["completed"] * 5


def test_calls_after_each_other_share_one_connection(served, upstream):
    for _ in range(5):
        assert served.post({"model": "stable", "input": "a"}).status_code == 200
    assert (len(upstream.asked), upstream.connections) == (5, 1)


@pytest.mark.parametrize("status", [500, 400])
def test_what_will_not_pass_is_asked_once(served, upstream, status):
    upstream.then(lambda handler, body: handler.json({}, status=status))
    served.post({"model": "stable", "input": "a"})
    assert len(upstream.asked) == 1


def test_an_overloaded_servers_own_pause_is_passed_on(served, upstream):
    upstream.then(lambda handler, body: handler.json({}, status=429, Retry_After="30"))
    answer = served.post({"model": "stable", "input": "a"})
    assert (answer.status_code, answer.headers["retry-after"]) == (503, "30")
    assert len(upstream.asked) == 1  # The pause is longer than the runtime's time.


def test_a_slow_server_is_a_timeout_of_the_runtimes_own_length(database, upstream):
    release = threading.Event()
    upstream.then(lambda handler, body: release.wait(30))
    world = make_world(database, base_url=upstream.url, runtime={"timeout_s": 0.3})
    with serving(world) as served:
        began = time.monotonic()
        answer = served.post({"model": "stable", "input": "a"})
        took_s = time.monotonic() - began
        release.set()
    assert (answer.status_code, answer.json()["error"]["code"]) == (504, "upstream_timeout")
    assert 0.3 <= took_s < 5
    assert world.row()["error_code"] == "upstream_timeout"


def test_a_server_that_drips_its_answer_is_a_timeout_too(database, upstream):
    ended = threading.Event()

    def drip(handler, body):
        handler.bytes(b"", Content_Length="1000")
        while not ended.wait(0.05):
            handler.wfile.write(b" ")

    upstream.then(drip)
    world = make_world(database, base_url=upstream.url, runtime={"timeout_s": 0.4})
    with serving(world) as served:
        assert served.post({"model": "stable", "input": "a"}).status_code == 504
        ended.set()


def test_a_server_that_is_not_there_is_a_502(database):
    world = make_world(database, base_url="http://127.0.0.1:1/v1")
    with serving(world) as served:
        answer = served.post({"model": "stable", "input": "a"})
    assert (answer.status_code, answer.json()["error"]["code"]) == (502, "upstream_unreachable")
    assert world.row()["error_code"] == "upstream_unreachable"


def test_the_runtimes_key_comes_from_its_variable_alone(database, upstream):
    world = make_world(database, base_url=upstream.url, runtime={"key_variable": "STEELYARD_UPSTREAM_A"})
    with serving(world, environ={"STEELYARD_UPSTREAM_A": "upstream-canary"}) as served:
        assert served.post({"model": "stable", "input": "a"}).status_code == 200
    assert upstream.headers[0]["authorization"] == "Bearer upstream-canary"


@pytest.mark.parametrize("environ", [{}, {"STEELYARD_UPSTREAM_A": ""}])
def test_a_key_that_is_not_there_is_a_502_and_nothing_is_asked(database, upstream, environ):
    world = make_world(database, base_url=upstream.url, runtime={"key_variable": "STEELYARD_UPSTREAM_A"})
    with serving(world, environ=environ) as served:
        answer = served.post({"model": "stable", "input": "a"})
    assert (answer.status_code, answer.json()["error"]["code"]) == (502, "upstream_key_missing")
    assert upstream.asked == []
    assert world.row()["error_code"] == "upstream_key_missing"


@pytest.mark.parametrize(
    "key", ["upstream-canary ", "upstream canary", "upstream-cänary", "upstream\ncanary", "\udcff"]
)
def test_a_key_that_no_header_could_carry_is_a_502_that_says_so_and_nothing_is_asked(database, upstream, key):
    world = make_world(database, base_url=upstream.url, runtime={"key_variable": "STEELYARD_UPSTREAM_A"})
    with serving(world, environ={"STEELYARD_UPSTREAM_A": key}) as served:
        answer = served.post({"model": "stable", "input": "a"})
    assert (answer.status_code, answer.json()["error"]["code"]) == (502, "upstream_key_missing")
    assert "must mend the runtime's key variable" in answer.json()["error"]["message"]
    assert "canary" not in answer.text
    assert answer.headers["x-should-retry"] == "false"
    assert upstream.asked == []


def test_a_variable_with_another_beginning_is_never_read(database, upstream):
    world = make_world(database, base_url=upstream.url, runtime={"key_variable": "HOME"})
    with serving(world, environ={"HOME": "canary"}) as served:
        assert served.post({"model": "stable", "input": "a"}).status_code == 502
    assert upstream.asked == []


def test_what_nobody_foresaw_is_a_500_in_the_same_shape_and_its_row_is_failed(served, monkeypatch):
    def fail(*_arguments, **_fields):
        raise ZeroDivisionError(TEXT)

    monkeypatch.setattr("steelyard.hub.gateway.service.was_truncated", fail)
    answer = served.post({"model": "stable", "input": "a"})
    assert (answer.status_code, answer.json()["error"]["code"]) == (500, "internal_error")
    assert TEXT not in answer.text
    assert served.world.row()["error_code"] == "internal_error"


def test_no_proxy_of_the_environment_is_used(served, monkeypatch):
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:1")
    monkeypatch.setenv("ALL_PROXY", "http://127.0.0.1:1")
    assert served.post({"model": "stable", "input": "a"}).status_code == 200
