"""JSON bodies under the hub's limits: a route class that checks and reads before FastAPI would."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fastapi.routing import APIRoute
from starlette.requests import Request

from steelyard.hub.rest.checks import Check
from steelyard.web.bodies import parse_json, read_body

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from starlette.responses import Response

MOST_BODY_BYTES = 8 << 20
_TIMEOUT_S = 30.0


class StrictRoute(APIRoute):
    """A route that makes the endpoint's checks before it reads a byte, and whose body is strict JSON in UTF-8.

    So a caller who may not do something learns nothing about bodies, and costs no memory. Content-Type says nothing. An
    endpoint that can do without a body may be sent none.
    """

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """Return the handler, behind the checks and the reading of the body."""
        answer = super().get_route_handler()
        if self.body_field is None:
            return answer
        may_be_absent = not self.body_field.field_info.is_required()
        checks = [part.call for part in self.dependant.dependencies if isinstance(part.call, Check)]

        async def read_and_answer(request: Request) -> Response:
            for check in checks:
                await check(request)
            body = await read_body(request.scope, request.receive, limit=MOST_BODY_BYTES, timeout_s=_TIMEOUT_S)
            return await answer(_ReadRequest(request, body=body, is_absent=may_be_absent and not body))

        return read_and_answer


class _ReadRequest(Request):
    """A request whose body has been read, since nobody can read it twice; FastAPI finds its JSON already parsed."""

    def __init__(self, request: Request, *, body: bytes, is_absent: bool) -> None:
        headers = [(name, value) for name, value in request.scope["headers"] if name != b"content-type"]
        super().__init__(
            {**request.scope, "headers": [*headers, (b"content-type", b"application/json")]}, request.receive
        )
        self._body = body
        if not is_absent:
            self._json = parse_json(body)
