"""HTTP as bytes: requests that are none, bodies that nobody reads, clients that wait or dawdle."""

from __future__ import annotations

import gzip
import json
import socket
from concurrent.futures import ThreadPoolExecutor
from http.client import HTTPConnection
from typing import TYPE_CHECKING

import pytest
from tests.processes import BODY, WAIT_S, Server, ask, head_of, is_closed, read_answer, serving

if TYPE_CHECKING:
    from collections.abc import Iterator

LARGE = 8 << 20


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with serving(max_queue=4) as server:
        yield server
        assert server.health()["queue"]["in_progress"] == 0
        assert server.stop() == 0
        assert "Traceback" not in server.log.text


MALFORMED = {
    "noise": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n",
    "no HTTP": b"hello\r\n\r\n",
    "no version": b"GET /health\r\n\r\n",
    "no host": b"GET /health HTTP/1.1\r\n\r\n",
    "a space before the colon": b"GET /health HTTP/1.1\r\nHost : x\r\n\r\n",
    "a header without a colon": b"GET /health HTTP/1.1\r\nHost: x\r\nnonsense\r\n\r\n",
    "a zero byte in a header": b"GET /health HTTP/1.1\r\nHost: x\r\nA: b\x00c\r\n\r\n",
    "a length that is no number": head_of("POST", "/decide", "Content-Length: abc"),
    "a negative length": head_of("POST", "/decide", "Content-Length: -5"),
    "two lengths": head_of("POST", "/decide", "Content-Length: 5", "Content-Length: 6"),
    "an unknown transfer encoding": head_of("POST", "/decide", "Transfer-Encoding: rot13"),
    "a head that is too long": b"GET /health HTTP/1.1\r\nHost: x\r\nA: " + b"a" * 70_000,  # And goes on.
}


@pytest.mark.parametrize("request_bytes", MALFORMED.values(), ids=MALFORMED.keys())
def test_what_is_no_http_is_a_400_in_the_envelope(server: Server, request_bytes: bytes) -> None:
    with server.connect() as raw:
        raw.sendall(request_bytes)
        answer = read_answer(raw)
        assert answer.status in {400, 501}
        assert answer.code == "invalid_request"
        assert answer.headers["content-type"] == "application/json"
        assert answer.headers["connection"] == "close"
        assert is_closed(raw)


def test_a_client_that_goes_on_sending_what_is_no_http_still_gets_its_answer(server: Server) -> None:
    with server.connect() as raw:
        raw.sendall(b"hello\r\n\r\n")
        raw.sendall(b"a" * 100_000)
        answer = read_answer(raw)
        assert (answer.status, answer.code) == (400, "invalid_request")
        assert is_closed(raw)


def test_a_bad_chunk_in_a_body_is_a_400_in_the_envelope(server: Server) -> None:
    with server.connect() as raw:
        raw.sendall(head_of("POST", "/decide", "Transfer-Encoding: chunked") + b"5\r\n{    \r\n")
        server.wait_until(lambda health: health["queue"]["in_progress"] == 1)
        raw.sendall(b"not hexadecimal\r\n")
        answer = read_answer(raw)
        assert (answer.status, answer.code) == (400, "invalid_request")
    server.wait_until(lambda health: health["queue"]["in_progress"] == 0)


@pytest.mark.parametrize("path", ["/decide", "/nowhere"])
def test_a_bad_chunk_after_an_early_answer_does_not_hurt(server: Server, path: str) -> None:
    with server.connect() as raw:
        raw.sendall(head_of("POST", path, "Transfer-Encoding: chunked", token=None))
        assert read_answer(raw).code == "unauthorized"
        raw.sendall(b"not hexadecimal\r\n")
        assert is_closed(raw)


@pytest.mark.parametrize(
    ("header", "rest"), [("Content-Length: 9", b"123456789"), ("Transfer-Encoding: chunked", b"not hexadecimal\r\n")]
)
def test_any_answer_before_the_body_was_read_closes_the_connection(server: Server, header: str, rest: bytes) -> None:
    with server.connect() as raw:
        raw.sendall(head_of("GET", "/health", header))
        answer = read_answer(raw)
        assert (answer.status, answer.headers["connection"]) == (200, "close")
        raw.sendall(rest)
        assert is_closed(raw)


def test_a_slow_body_is_a_408_and_frees_its_place() -> None:
    with serving(body_timeout_s=0.3) as server, server.connect() as raw:
        raw.sendall(head_of("POST", "/decide", "Content-Length: 100") + b'{"id"')
        answer = read_answer(raw)
        assert (answer.status, answer.code) == (408, "request_timeout")
        assert answer.headers["connection"] == "close"
        assert server.health()["queue"]["in_progress"] == 0
        assert is_closed(raw)


def test_a_client_that_expects_100_continue_gets_it_before_it_sends_its_body(server: Server) -> None:
    with server.connect() as raw:
        raw.sendall(head_of("POST", "/decide", f"Content-Length: {len(BODY)}", "Expect: 100-continue"))
        head = b""
        while not head.endswith(b"\r\n\r\n"):
            head += raw.recv(1)
        assert head.startswith(b"HTTP/1.1 100 ")
        raw.sendall(BODY)
        assert read_answer(raw).status == 200


@pytest.mark.parametrize(
    ("headers", "token", "status"),
    [
        ([f"Content-Length: {LARGE}"], None, 401),
        ([f"Content-Length: {LARGE}"], "right", 413),
        (["Content-Length: 50", "Content-Encoding: br"], "right", 415),
    ],
)
def test_a_client_that_expects_100_continue_is_refused_without_it(
    server: Server, headers: list[str], token: str | None, status: int
) -> None:
    with server.connect() as raw:
        head = head_of("POST", "/decide", *headers, "Expect: 100-continue")
        raw.sendall(head if token else head_of("POST", "/decide", *headers, "Expect: 100-continue", token=None))
        assert read_answer(raw).status == status


def send_large(server: Server, head: bytes, size: int = LARGE) -> int:
    """Send a large body to its end, as simple clients do, and only then read the answer's status."""
    with server.connect() as raw:
        raw.sendall(head)
        for _ in range(size >> 16):
            raw.sendall(b" " * 65536)
        return read_answer(raw).status


def test_a_large_body_that_nobody_reads_does_not_cost_the_client_its_answer(server: Server) -> None:
    length = f"Content-Length: {LARGE}"
    assert send_large(server, head_of("POST", "/decide", length, token=None)) == 401
    assert send_large(server, head_of("POST", "/nowhere", length)) == 404
    assert send_large(server, head_of("POST", "/decide", length)) == 413
    assert send_large(server, head_of("POST", "/decide", length, "Content-Encoding: br")) == 415


def test_a_large_chunked_body_is_refused_and_answered_too(server: Server) -> None:
    with server.connect() as raw:
        raw.sendall(head_of("POST", "/decide", "Transfer-Encoding: chunked"))
        for _ in range(LARGE >> 16):
            raw.sendall(b"10000\r\n" + b" " * 65536 + b"\r\n")
        raw.sendall(b"0\r\n\r\n")
        assert read_answer(raw).status == 413


def test_a_large_body_to_a_full_queue_gets_its_429() -> None:
    with serving(max_queue=1) as server, server.connect() as first:
        first.sendall(head_of("POST", "/decide", "Content-Length: 10") + b"{")
        server.wait_until(lambda health: health["queue"]["in_progress"] == 1)
        assert send_large(server, head_of("POST", "/decide", f"Content-Length: {LARGE}")) == 429


def test_many_large_bodies_at_once_all_get_their_answers(server: Server) -> None:
    head = head_of("POST", "/decide", f"Content-Length: {LARGE}", token=None)
    with ThreadPoolExecutor(6) as clients:
        assert list(clients.map(lambda _: send_large(server, head), range(12))) == [401] * 12


def test_a_connection_serves_one_request_after_another(server: Server) -> None:
    connection = HTTPConnection("127.0.0.1", server.port, timeout=WAIT_S)
    try:
        first = ask(connection, "POST", "/decide", BODY)
        used = connection.sock
        rest = [ask(connection, "POST", "/decide", BODY), ask(connection, "POST", "/decide", b"{")]
        assert [first.status, *(answer.status for answer in rest)] == [200, 200, 422]
        assert connection.sock is used
    finally:
        connection.close()


def test_two_requests_sent_in_one_go_are_both_answered(server: Server) -> None:
    head = head_of("POST", "/decide", f"Content-Length: {len(BODY)}")
    with server.connect() as raw:
        raw.sendall((head + BODY) * 2)
        assert [read_answer(raw).status, read_answer(raw).status] == [200, 200]


def test_a_chunked_and_a_compressed_body_are_read(server: Server) -> None:
    body = gzip.compress(BODY)
    with server.connect() as raw:
        raw.sendall(head_of("POST", "/decide", "Transfer-Encoding: chunked", "Content-Encoding: gzip"))
        for k in range(0, len(body), 10):
            raw.sendall(b"%x\r\n%s\r\n" % (len(body[k : k + 10]), body[k : k + 10]))
        raw.sendall(b"0\r\n\r\n")
        assert read_answer(raw).status == 200


@pytest.mark.parametrize("value", [b"Bearer \xff\xfe", b"\xe9", b"Bearer \xe2\x98\x83"])
def test_bytes_that_are_not_ascii_in_the_token_are_a_401(server: Server, value: bytes) -> None:
    with server.connect() as raw:
        raw.sendall(b"GET /metrics HTTP/1.1\r\nHost: x\r\nAuthorization: " + value + b"\r\n\r\n")
        assert read_answer(raw).code == "unauthorized"


def test_two_authorization_headers_are_a_401(server: Server) -> None:
    head = head_of("GET", "/metrics").removesuffix(b"\r\n")
    with server.connect() as raw:
        raw.sendall(head + b"Authorization: Bearer x\r\n\r\n")
        assert read_answer(raw).code == "unauthorized"


@pytest.mark.parametrize(("path", "status"), [("/health", 200), ("/decide", 405)])
def test_a_head_request_gets_a_head(server: Server, path: str, status: int) -> None:
    answer = server.request("HEAD", path)
    assert (answer.status, answer.body) == (status, b"")


def test_a_request_for_a_websocket_is_an_ordinary_one(server: Server) -> None:
    upgrade = ["Connection: Upgrade", "Upgrade: websocket", "Sec-WebSocket-Version: 13", "Sec-WebSocket-Key: eA=="]
    with server.connect() as raw:
        raw.sendall(head_of("GET", "/health", *upgrade))
        assert read_answer(raw).status == 200


def test_odd_targets_are_answered_in_the_envelope(server: Server) -> None:
    for target in ("/%FF%00", "/..//decide", "*", "http://x/decide", "/decide?" + "q" * 5000, "/" + "%41" * 1000):
        with server.connect() as raw:
            raw.sendall(head_of("GET", target))
            assert read_answer(raw).code in {"not_found", "method_not_allowed"}


def test_the_server_names_no_software(server: Server) -> None:
    assert "server" not in server.request("GET", "/health").headers


def test_small_answers_do_not_wait_for_acknowledgements(server: Server) -> None:
    with server.connect() as raw:
        raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for _ in range(3):
            raw.sendall(head_of("POST", "/decide", f"Content-Length: {len(BODY)}") + BODY)
            assert json.loads(read_answer(raw).body)["id"] == "ticket-1"
