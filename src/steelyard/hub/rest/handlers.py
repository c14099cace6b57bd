"""What the application asks for an answer where something was refused or failed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from starlette.exceptions import HTTPException

from steelyard.hub.rest.problems import problem_for
from steelyard.web.answers import NoAnswer
from steelyard.web.errors import ClientGone, MalformedBody, MethodNotAllowed, NotFound

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

    from starlette.requests import Request
    from starlette.responses import Response
    from starlette.types import Scope

    from steelyard.hub.rest.paths import Paths


class Handlers:
    """Answers errors as problems; below the prefixes of *other_shapes* in the shapes that these give.

    *names* are those that requests have.
    """

    def __init__(
        self,
        *,
        paths: Paths,
        names: Collection[str],
        other_shapes: Mapping[str, Callable[[Exception], Response]],
    ) -> None:
        self._paths = paths
        self._names = names
        self._other_shapes = other_shapes

    async def answer(self, request: Request, error: Exception) -> Response:
        """Answer an error that an endpoint raised; a departed client gets none."""
        return NoAnswer() if isinstance(error, ClientGone) else self.refuse(error, request.scope)

    async def answer_http(self, request: Request, error: Exception) -> Response:
        """Answer the refusals of the router, and what FastAPI refuses by itself."""
        status = error.status_code if isinstance(error, HTTPException) else 500
        if status == 405:
            answer = self.refuse(MethodNotAllowed(), request.scope)
            answer.headers["Allow"] = self._paths.allowed(request.scope["path"])
            return answer
        return self.refuse(NotFound() if status == 404 else MalformedBody(), request.scope)

    def refuse(self, error: Exception, scope: Scope) -> Response:
        """Answer what the gate refuses, or fails at."""
        for prefix, shape in self._other_shapes.items():
            if scope["path"].startswith(prefix):
                return shape(error)
        return problem_for(error, request_id=scope["state"]["request_id"], names=self._names)
