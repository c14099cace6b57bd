"""What a raw connection may send to a hub: every answer is one of the contract's, and the hub goes on."""

from __future__ import annotations

import json
import socket
from http.client import HTTPResponse
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import pytest
from tests.hub_process import RunningHub, running_hub
from tests.processes import WAIT_S

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(scope="module")
def hub(tmp_path_factory) -> Iterator[RunningHub]:
    with running_hub(tmp_path_factory.mktemp("wire")) as hub:
        yield hub
        assert "Traceback" not in hub.log.text


def send(hub: RunningHub, data: bytes) -> tuple[int, dict[str, str], bytes]:
    """Send *data* on a connection of its own, and return the answer."""
    parts = urlsplit(hub.url)
    with socket.create_connection((parts.hostname, parts.port), timeout=WAIT_S) as raw:
        raw.sendall(data.replace(b"SECRET", hub.secret.encode()))
        response = HTTPResponse(raw, method=data.partition(b" ")[0].decode("latin-1"))
        response.begin()
        headers = {name.lower(): value for name, value in response.getheaders()}
        return response.status, headers, response.read()


@pytest.mark.parametrize(
    "data",
    [
        b"canary\r\n\r\n",
        b"GET /canary\r\n\r\n",
        b"GET /canary HTTP/1.1\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: x\r\ncanary\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: x\r\nContent-Length: canary\r\n\r\n",
        b"GET /\x00canary HTTP/1.1\r\nHost: x\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n",
    ],
)
def test_what_is_no_http_is_a_problem_that_does_not_repeat_it(hub, data):
    status, headers, body = send(hub, data)
    assert (status, headers["content-type"], json.loads(body)["code"]) == (
        400, "application/problem+json", "INVALID_REQUEST",
    )  # fmt: skip
    assert b"canary" not in body
    assert json.loads(body)["instance"].startswith("urn:uuid:")


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (b"GET http://x/api/v1/projects HTTP/1.1", 404),
        (b"GET x:443 HTTP/1.1", 404),
        (b"OPTIONS * HTTP/1.1", 404),
        (b"GET //api/v1/projects HTTP/1.1", 404),
        (b"GET /api/v1/projects/%00 HTTP/1.1", 404),
        (b"GET /api/v1%2Fprojects HTTP/1.1", 200),
        (b"HEAD /api/v1/projects HTTP/1.1", 405),
        (b"OPTIONS /api/v1/projects HTTP/1.1", 405),
        (b"get /api/v1/projects HTTP/1.1", 405),
        (b"GET /api/v1/projects?%00=%00 HTTP/1.1", 422),
        (b"GET /api/v1/projects?limit=" + b"9" * 8000 + b" HTTP/1.1", 422),
        (b"GET /api/v1/projects HTTP/1.0", 200),
    ],
)
def test_a_request_may_name_its_target_in_any_form(hub, line, expected):
    status, headers, _body = send(hub, line + b"\r\nHost: x\r\nAuthorization: Bearer SECRET\r\n\r\n")
    assert status == expected
    assert headers["x-request-id"]


def test_a_refused_caller_gets_an_answer_while_its_large_body_is_on_its_way(hub):
    head = b"POST /api/v1/projects HTTP/1.1\r\nHost: x\r\nContent-Length: 20000000\r\n\r\n"
    status, headers, body = send(hub, head + b" " * 2_000_000)
    assert (status, headers["connection"]) == (401, "close")
    assert json.loads(body)["code"] == "UNAUTHORIZED"
