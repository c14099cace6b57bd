"""The gate, with a guard, an error shape and labels of a service's own."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest
from starlette.responses import PlainTextResponse
from starlette.routing import Route

from steelyard.hall.errors import SteelyardError
from steelyard.web.application import build_application
from steelyard.web.errors import RequestRefused, Unauthorized
from steelyard.web.gate import Gate, label_of_paths

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response
    from starlette.types import Message, Scope


async def tell(request: Request) -> Response:
    """Answer with the request's id and who asks, as an application finds them."""
    return PlainTextResponse(f"{request.state.request_id} {request.state.principal}")


async def break_down(_request: Request) -> Response:
    raise RuntimeError("nobody foresaw this")


async def refuse_late(_request: Request) -> Response:
    raise Unauthorized


async def answer_unforeseen(_request: Request, _error: Exception) -> Response:
    return PlainTextResponse("sorry", status_code=500)


async def guard(scope: Scope) -> None:
    """Stand for a look-up in a database."""
    await asyncio.sleep(0)
    if scope["path"].startswith("/closed"):
        raise Unauthorized
    if scope["path"].startswith("/failing"):
        raise RuntimeError("nobody foresaw this in a guard")
    if scope["path"].startswith("/away"):
        raise Away
    scope["state"]["principal"] = "someone"


class Away(SteelyardError):
    """What the guard asks is away."""


def answer(error: Exception, scope: Scope) -> Response:
    status = error.status if isinstance(error, RequestRefused) else 503
    return PlainTextResponse(f"{scope['path']}: {type(error).__name__}", status_code=status)


class Asked:
    """One gate; `get` asks it, and `counted` is what it told its service."""

    def __init__(self) -> None:
        self.counted: list[tuple[str, int]] = []
        routes = [Route("/tell/{name}", tell), Route("/break", break_down), Route("/late", refuse_late)]
        self.gate = Gate(
            build_application(routes, handlers={}, answer_unforeseen=answer_unforeseen),
            guard=guard,
            answer=answer,
            label=lambda scope: "tell" if "name" in scope.get("path_params", {}) else "other",
            on_answer=lambda label, status: self.counted.append((label, status)),
        )

    def get(self, path: str, **state: object) -> tuple[int, dict[bytes, bytes], str]:
        scope: Scope = {
            "type": "http",
            "method": "GET",
            "path": path,
            "headers": [],
            "query_string": b"",
            "root_path": "",
        }
        if state:
            scope["state"] = state
        messages: list[Message] = []

        async def receive() -> Message:
            return {"type": "http.request", "body": b"", "more_body": False}

        async def send(message: Message) -> None:
            messages.append(message)

        asyncio.run(self.gate(scope, receive, send))
        start, *parts = messages
        return start["status"], dict(start["headers"]), b"".join(part["body"] for part in parts).decode()


@pytest.fixture
def asked() -> Asked:
    return Asked()


@pytest.mark.parametrize("state", [{}, {"shared": 1}])
def test_the_application_knows_the_id_that_the_answer_has_and_what_the_guard_found(asked, state):
    status, headers, text = asked.get("/tell/x", **state)
    assert (status, text) == (200, f"{headers[b'x-request-id'].decode()} someone")


def test_a_refusal_of_the_guard_is_answered_in_the_services_own_shape(asked):
    status, headers, text = asked.get("/closed/x")
    assert (status, text) == (401, "/closed/x: Unauthorized")
    assert b"x-request-id" in headers


def test_a_guard_that_fails_lets_nobody_in_and_is_answered_and_logged(asked, caplog):
    assert asked.get("/failing")[0::2] == (503, "/failing: RuntimeError")
    assert "nobody foresaw this in a guard" in caplog.text


def test_a_guard_that_fails_as_foreseen_is_answered_without_a_traceback(asked, caplog):
    assert asked.get("/away")[0::2] == (503, "/away: Away")
    assert "Traceback" not in caplog.text
    assert asked.counted == [("other", 503)]


def test_a_label_may_come_from_what_the_router_found(asked):
    for path in ("/tell/x", "/tell/y", "/closed", "/nowhere"):
        asked.get(path)
    assert asked.counted == [("tell", 200), ("tell", 200), ("other", 401), ("other", 404)]


def test_what_nobody_foresaw_is_answered_and_logged(asked, caplog):
    assert asked.get("/break")[0::2] == (500, "sorry")
    assert "Unforeseen failure" in caplog.text
    assert "nobody foresaw this" in caplog.text


def test_a_refusal_from_inside_is_the_applications_own_to_answer(asked):
    assert asked.get("/late")[0::2] == (500, "sorry")


def test_paths_are_exact(asked):
    assert asked.get("/break/")[0] == 404


def test_known_paths_are_their_own_labels():
    label = label_of_paths({"/a"})
    assert (label({"path": "/a"}), label({"path": "/a/"})) == ("/a", "other")
