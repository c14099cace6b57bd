"""Who may call an endpoint. The gate has already found out who the caller is."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from fastapi import Depends, Request

from steelyard.hub.errors import NotAuthorised
from steelyard.hub.principal import Actor, Principal, Role

if TYPE_CHECKING:
    from collections.abc import Callable


def _allowed(*roles: Role) -> Callable[[Request], Actor]:
    def check(request: Request) -> Actor:
        principal: Principal = request.scope["state"]["principal"]
        if principal.role not in roles:
            raise NotAuthorised(f"This needs the credential of {' or '.join(roles)}; yours is of a {principal.role}")
        return Actor(role=principal.role, name=principal.public_id, request_id=request.scope["state"]["request_id"])

    return check


Operator = Annotated[Actor, Depends(_allowed("operator"))]
Viewer = Annotated[Actor, Depends(_allowed("viewer", "operator"))]
