"""Bearer tokens, compared in constant time."""

from __future__ import annotations

import hmac
from typing import TYPE_CHECKING

from steelyard.web.errors import Unauthorized

if TYPE_CHECKING:
    from starlette.types import Scope


def check_bearer(scope: Scope, *, token: str) -> None:
    """Raise Unauthorized unless the request carries exactly one Authorization header with *token* as its bearer."""
    values = [value for name, value in scope["headers"] if name == b"authorization"]
    scheme, _, sent = values[0].partition(b" ") if len(values) == 1 else (b"", b"", b"")
    is_right = hmac.compare_digest(sent.strip(b" "), token.encode("ascii"))
    if scheme.lower() != b"bearer" or not is_right:
        raise Unauthorized
