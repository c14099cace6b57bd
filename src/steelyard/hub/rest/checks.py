"""What is checked of a request before its body is read: the caller's role, then the thing that the path names.

Annotations are real objects here, since FastAPI reads them when a function is made.
"""

from collections.abc import Callable
from typing import Annotated, Any, Generic, TypeVar
from uuid import UUID

from fastapi import Depends, Request
from starlette.concurrency import run_in_threadpool

from steelyard.hub.errors import NotAuthorised
from steelyard.hub.principal import Actor, Principal, Role

T = TypeVar("T")


class Check(Generic[T]):
    """A dependency that needs no body, with an answer or an error.

    `StrictRoute` makes an endpoint's checks in the order of its parameters before it reads a body; FastAPI, which asks
    for dependencies afterwards, gets the answers that were found.
    """

    async def __call__(self, request: Request) -> T:
        """Return the answer; each request is checked once."""
        made: dict[Check[Any], Any] = request.scope["state"].setdefault("checks", {})
        if self not in made:
            made[self] = await self.make(request)
        answer: T = made[self]
        return answer

    async def make(self, request: Request) -> T:
        """Check *request*, whose caller the gate has found out."""
        raise NotImplementedError


class Allowed(Check[Actor]):
    """The caller has one of *roles*."""

    def __init__(self, *roles: Role) -> None:
        self._roles = roles

    async def make(self, request: Request) -> Actor:
        """Return who acts; raises NotAuthorised."""
        principal: Principal = request.scope["state"]["principal"]
        if principal.role not in self._roles:
            raise NotAuthorised(
                f"This needs the credential of {' or '.join(self._roles)}; yours is of {principal.role}"
            )
        return Actor(role=principal.role, name=principal.public_id, request_id=request.scope["state"]["request_id"])


class Known(Check[None]):
    """The path's id is that of a thing: *get* raises UnknownThing where it is not."""

    def __init__(self, get: Callable[[UUID], object]) -> None:
        self._get = get

    async def make(self, request: Request) -> None:
        """Look the thing up; the router has made sure that the path has one id."""
        await run_in_threadpool(self._get, *request.path_params.values())


Operator = Annotated[Actor, Depends(Allowed("operator"))]
Viewer = Annotated[Actor, Depends(Allowed("viewer", "operator"))]
