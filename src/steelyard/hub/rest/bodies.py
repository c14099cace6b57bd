"""JSON bodies under the hub's limits: a route class that reads them before FastAPI would."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fastapi.routing import APIRoute
from starlette.requests import Request

from steelyard.web.bodies import parse_json, read_body

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from starlette.responses import Response

MOST_BODY_BYTES = 8 << 20
_TIMEOUT_S = 30.0


class StrictRoute(APIRoute):
    """A route whose body is strict JSON in UTF-8, whatever its Content-Type says."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """Return the handler, behind the reading of the body."""
        answer = super().get_route_handler()
        if self.body_field is None:
            return answer

        async def read_and_answer(request: Request) -> Response:
            body = await read_body(request.scope, request.receive, limit=MOST_BODY_BYTES, timeout_s=_TIMEOUT_S)
            return await answer(_ReadRequest(request, body=body))

        return read_and_answer


class _ReadRequest(Request):
    """A request whose body has been read; FastAPI finds its JSON already parsed."""

    def __init__(self, request: Request, *, body: bytes) -> None:
        headers = [(name, value) for name, value in request.scope["headers"] if name != b"content-type"]
        super().__init__(
            {**request.scope, "headers": [*headers, (b"content-type", b"application/json")]}, request.receive
        )
        self._body = body
        self._json = parse_json(body)
