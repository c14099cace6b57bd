"""Calls embedding servers over HTTP, each runtime through connections of its own.

An embedding has no side effect, so a failed connection or an overloaded server is asked once more, within the same
limit of time. No proxy is used, no redirect followed, and no more of an answer read than an honest one could have.
"""

from __future__ import annotations

import asyncio
import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

import httpx2

from steelyard.hub.gateway.domain.answers import most_bytes, read_answer
from steelyard.hub.gateway.domain.errors import (
    BadAnswer,
    InputTooLong,
    UpstreamFailed,
    UpstreamKeyMissing,
    UpstreamOverloaded,
    UpstreamRefused,
    UpstreamTimeout,
    UpstreamUnreachable,
)
from steelyard.hub.gateway.domain.overlong import speaks_of_length

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from uuid import UUID

    from steelyard.hub.gateway.domain.answers import Answer
    from steelyard.hub.gateway.domain.errors import GatewayError
    from steelyard.hub.gateway.domain.targets import Deployment, Runtime

KEY_PREFIX = "STEELYARD_UPSTREAM_"
_CONNECT_S = 5.0
_PAUSE_S = 0.1
_MOST_PAUSE_S = 60
_OVERLOADED = (429, 503)
_ERROR_BYTES = 4096
_LIMITS = httpx2.Limits(max_connections=None, max_keepalive_connections=64, keepalive_expiry=30.0)


@dataclass(frozen=True)
class _Reply:
    status: int
    retry_after_s: int | None
    body: bytes


class Upstream:
    """Every runtime's connections; *environ* has the runtimes' keys. It belongs to one event loop."""

    def __init__(self, *, environ: Mapping[str, str]) -> None:
        self._environ = environ
        self._clients: dict[UUID, httpx2.AsyncClient] = {}

    async def embed(self, deployment: Deployment, texts: Sequence[str], *, request_id: str) -> Answer:
        """Return the vectors of *texts*, prompts included; raises UpstreamError or InputTooLong."""
        count, dimension = len(texts), deployment.identity.dimension
        request = self._request(deployment, texts, request_id=request_id)
        limit = most_bytes(count=count, dimension=dimension)
        try:
            async with asyncio.timeout(deployment.runtime.timeout_s):
                reply = await self._ask(deployment.runtime, request, limit=limit)
        except TimeoutError:
            raise UpstreamTimeout from None
        if reply.status != 200:
            raise _error_of(reply)
        return read_answer(reply.body, count=count, dimension=dimension)

    async def close(self) -> None:
        """Close every connection."""
        for client in self._clients.values():
            await client.aclose()

    async def _ask(self, runtime: Runtime, request: httpx2.Request, *, limit: int) -> _Reply:
        """Send *request*, and once more where that may help."""
        try:
            reply = await self._send(runtime, request, limit=limit)
            if reply.status not in _OVERLOADED:
                return reply
            pause_s = float(reply.retry_after_s or _PAUSE_S)
            if pause_s >= runtime.timeout_s:
                return reply
        except UpstreamUnreachable:
            pause_s = _PAUSE_S
        await asyncio.sleep(pause_s)
        return await self._send(runtime, request, limit=limit)

    async def _send(self, runtime: Runtime, request: httpx2.Request, *, limit: int) -> _Reply:
        try:
            response = await self._client(runtime).send(request, stream=True)
            try:
                body = await _read(response, limit=limit if response.status_code == 200 else _ERROR_BYTES)
            finally:
                await response.aclose()
        except httpx2.ConnectTimeout:
            raise UpstreamUnreachable from None
        except httpx2.TimeoutException:
            raise UpstreamTimeout from None
        except httpx2.TransportError:
            raise UpstreamUnreachable from None
        return _Reply(status=response.status_code, retry_after_s=_retry_after_s(response), body=body)

    def _client(self, runtime: Runtime) -> httpx2.AsyncClient:
        if runtime.id not in self._clients:  # A runtime is immutable, so its connections never lead elsewhere.
            timeout = httpx2.Timeout(runtime.timeout_s, connect=min(_CONNECT_S, runtime.timeout_s))
            self._clients[runtime.id] = httpx2.AsyncClient(trust_env=False, timeout=timeout, limits=_LIMITS)
        return self._clients[runtime.id]

    def _request(self, deployment: Deployment, texts: Sequence[str], *, request_id: str) -> httpx2.Request:
        runtime = deployment.runtime
        # In base64 a vector is a quarter of the bytes, and one string to parse; who does not know it answers numbers.
        body: dict[str, object] = {"model": deployment.served_model, "input": texts, "encoding_format": "base64"}
        if runtime.on_overlong == "reports":
            body["truncate"] = deployment.allows_truncation
        headers = {"Content-Type": "application/json", "Accept-Encoding": "identity", "X-Request-ID": request_id}
        if runtime.key_variable is not None:
            headers["Authorization"] = f"Bearer {self._key(runtime.key_variable)}"
        url = f"{runtime.base_url.rstrip('/')}/embeddings"
        content = json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode("utf-8")
        return self._client(runtime).build_request("POST", url, content=content, headers=headers)

    def _key(self, variable: str) -> str:
        key = self._environ.get(variable) if variable.startswith(KEY_PREFIX) else None
        if not key:
            raise UpstreamKeyMissing
        if not all("!" <= character <= "~" for character in key):
            raise UpstreamKeyMissing("The hub's key for the embedding server holds a space, or what is not ASCII; its "
                                     "operator must mend the runtime's key variable")  # fmt: skip
        return key


async def _read(response: httpx2.Response, *, limit: int) -> bytes:
    """Return the body; an error's end after *limit* bytes is dropped, a longer answer raises BadAnswer."""
    if response.headers.get("content-encoding", "identity") != "identity":
        raise BadAnswer("The embedding server's answer is compressed, which it was asked not to be")
    body = bytearray()
    async for piece in response.aiter_raw():
        body += piece
        if len(body) > limit:
            if response.status_code == 200:
                raise BadAnswer("The embedding server's answer is larger than its vectors could be")
            break
    return bytes(body)


def _error_of(reply: _Reply) -> GatewayError:
    # First the length, for llama.cpp says 500 where a text is too long.
    if reply.status == 413 or (reply.status >= 400 and speaks_of_length(reply.body)):
        return InputTooLong()
    if reply.status in _OVERLOADED:
        return UpstreamOverloaded(retry_after_s=reply.retry_after_s or 1)
    if reply.status >= 500:
        return UpstreamFailed(f"The embedding server failed with status {reply.status}")
    return UpstreamRefused(f"The embedding server refused the hub's request with status {reply.status}")


def _retry_after_s(response: httpx2.Response) -> int | None:
    """Return what a Retry-After header asks for, at least one second; dates are not read."""
    value = response.headers.get("retry-after", "")
    return min(max(int(value), 1), _MOST_PAUSE_S) if re.fullmatch("[0-9]{1,9}", value) else None
