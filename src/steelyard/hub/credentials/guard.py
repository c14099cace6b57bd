"""What the gate asks of every request: a live credential, not too often."""

from __future__ import annotations

import asyncio
import ipaddress
import math
from concurrent.futures import ThreadPoolExecutor
from types import MappingProxyType
from typing import TYPE_CHECKING

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

_THREADS = 8  # Of its own: callers are told apart while every other thread waits for a lock.
_IPV6_PREFIX = 64  # What one site has; it may send from each of its addresses.


class Guard:
    """Puts the caller's principal into the scope's state; raises Unauthorized, TooMany or a StoreError."""

    def __init__(self, database: Database, *, open_paths: Collection[str], failures: Buckets, calls: Buckets) -> None:
        self._database = database
        self._open_paths = open_paths
        self._failures = failures
        self._calls = calls
        self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="guard")

    async def __call__(self, scope: Scope) -> None:
        """Check one request."""
        if scope["path"] in self._open_paths and scope["method"] in ("GET", "HEAD"):
            return
        principal = await self._principal_of(bearer_of(scope))
        if principal is None:
            # Only failures are limited: behind one proxy, a caller with a wrong secret must not shut out the others.
            # No header names the address, for anybody may write one; a proxy's callers therefore fail together.
            _take(self._failures, network_of(scope), "Too many requests of this address had no valid credential")
            raise Unauthorized("Send a live credential's secret as `Authorization: Bearer steelyard_…`")
        _take(self._calls, principal.public_id, "This credential calls too often")
        scope["state"]["principal"] = principal

    async def _principal_of(self, token: bytes) -> Principal | None:
        sent = token.decode("latin-1")
        public_id = public_id_of(sent)
        if public_id is None:  # No secret of ours has this form, so no time could tell anything about one.
            return None
        return await asyncio.get_running_loop().run_in_executor(self._threads, self._read, public_id, sent)

    def _read(self, public_id: str, sent: str) -> Principal | None:
        with self._database.read() as connection:
            return store.principal_of(connection, public_id, sent=sent)


def network_of(scope: Scope) -> str:
    """Return the address by which a caller's failures are counted: an IPv4 one, or an IPv6 site's prefix."""
    host = str((scope.get("client") or ("",))[0])
    try:
        address = ipaddress.ip_address(host.partition("%")[0])
    except ValueError:  # A Unix socket's peer has none.
        return "unknown"
    if isinstance(address, ipaddress.IPv4Address):
        return str(address)
    if address.ipv4_mapped:
        return str(address.ipv4_mapped)
    return str(ipaddress.ip_network((address, _IPV6_PREFIX), strict=False))


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
