"""What the gate asks of every request: a live credential, not too often."""

from __future__ import annotations

import math
from types import MappingProxyType
from typing import TYPE_CHECKING

from starlette.concurrency import run_in_threadpool

from steelyard.hub.credentials import store
from steelyard.hub.credentials.domain import public_id_of
from steelyard.web.auth import bearer_of
from steelyard.web.errors import Busy, Unauthorized

if TYPE_CHECKING:
    from collections.abc import Collection

    from starlette.types import Scope

    from steelyard.hub.credentials.limits import Buckets
    from steelyard.hub.db.database import Database
    from steelyard.hub.principal import Principal


class Guard:
    """Puts the caller's principal into the scope's state, or raises Unauthorized or TooMany."""

    def __init__(
        self, database: Database, *, open_routes: Collection[tuple[str, str]], failures: Buckets, calls: Buckets
    ) -> None:
        self._database = database
        self._open_routes = open_routes
        self._failures = failures
        self._calls = calls

    async def __call__(self, scope: Scope) -> None:
        """Check one request."""
        if (scope["method"], scope["path"]) in self._open_routes:
            return
        principal = await self._principal_of(bearer_of(scope))
        if principal is None:
            # Only failures are limited: behind one proxy, a caller with a wrong secret must not shut out the others.
            address = str((scope.get("client") or ("unknown",))[0])
            _take(self._failures, address, "Too many requests of this address had no valid credential")
            raise Unauthorized
        _take(self._calls, principal.public_id, "This credential calls too often")
        scope["state"]["principal"] = principal

    async def _principal_of(self, token: bytes) -> Principal | None:
        sent = token.decode("latin-1")
        public_id = public_id_of(sent)
        if public_id is None:  # No secret of ours has this form, so no time could tell anything about one.
            return None
        return await run_in_threadpool(self._read, public_id, sent)

    def _read(self, public_id: str, sent: str) -> Principal | None:
        with self._database.read() as connection:
            return store.principal_of(connection, public_id, sent=sent)


def _take(buckets: Buckets, key: str, reason: str) -> None:
    wait_s = buckets.take(key)
    if wait_s > 0:
        raise TooMany(reason, wait_s=wait_s)


class TooMany(Busy):
    """Too many requests; try again later."""

    code = "too_many_requests"

    def __init__(self, reason: str, *, wait_s: float) -> None:
        seconds = math.ceil(wait_s)
        super().__init__(f"{reason}; try again in {seconds} s")
        self.headers = MappingProxyType({"Retry-After": str(seconds)})
