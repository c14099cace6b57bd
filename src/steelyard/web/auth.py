"""Bearer tokens, compared in constant time."""

from __future__ import annotations

import hmac
from typing import TYPE_CHECKING

from steelyard.web.errors import Unauthorized

if TYPE_CHECKING:
    from collections.abc import Collection

    from starlette.types import Scope

    from steelyard.web.gate import Guard


def bearer_of(scope: Scope) -> bytes:
    """Return the bearer token of the request's one Authorization header; empty where there is none, or several."""
    values = [value for name, value in scope["headers"] if name == b"authorization"]
    scheme, _, sent = values[0].partition(b" ") if len(values) == 1 else (b"", b"", b"")
    return bytes(sent.strip(b" ")) if scheme.lower() == b"bearer" else b""


def check_bearer(scope: Scope, *, token: str) -> None:
    """Raise Unauthorized unless the request carries exactly one Authorization header with *token* as its bearer."""
    if not hmac.compare_digest(bearer_of(scope), token.encode("ascii")):
        raise Unauthorized


def token_guard(*, token: str, open_routes: Collection[tuple[str, str]]) -> Guard:
    """Return the guard that asks for *token* everywhere but at *open_routes* (pairs of method and path)."""

    async def check(scope: Scope) -> None:
        if (scope["method"], scope["path"]) not in open_routes:
            check_bearer(scope, token=token)

    return check
