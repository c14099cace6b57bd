"""One call through the gateway: its row, the embedding server, its row again, and only then the answer."""

from __future__ import annotations

import asyncio
import logging
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from steelyard.hub.db.errors import StoreError
from steelyard.hub.gateway import store
from steelyard.hub.gateway.domain.calls import check_dimensions, prompted
from steelyard.hub.gateway.domain.entries import Ended, started
from steelyard.hub.gateway.domain.errors import CatalogueUnavailable, GatewayError, Unforeseen
from steelyard.hub.gateway.domain.overlong import check_truncation, was_truncated
from steelyard.hub.gateway.domain.targets import require_target, slug_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from steelyard.hub.db.database import Database
    from steelyard.hub.gateway.domain.answers import Answer
    from steelyard.hub.gateway.domain.calls import Call
    from steelyard.hub.gateway.domain.entries import Started
    from steelyard.hub.gateway.domain.targets import Client, Deployment, Target
    from steelyard.hub.gateway.log import RequestLog
    from steelyard.hub.gateway.upstream import Upstream
    from steelyard.web.admission import Permit

logger = logging.getLogger("steelyard.hub")
_READERS = 8  # The database keeps as many connections for reading.


_Read = TypeVar("_Read")


class GatewayService:
    """Carries calls; `close` once none is under way."""

    def __init__(self, database: Database, *, log: RequestLog, upstream: Upstream) -> None:
        self._database = database
        self._log = log
        self._upstream = upstream
        self._readers = ThreadPoolExecutor(_READERS, thread_name_prefix="gateway-read")
        self._under_way: set[asyncio.Task[Answer]] = set()  # The event loop holds its tasks weakly.

    async def list_routes(self, client: Client) -> list[store.ClientRoute]:
        """Return the client's usable routes; raises CatalogueUnavailable where the database cannot be read."""
        return await self._read(lambda: store.list_routes(self._database, binding_id=client.project_binding_id))

    async def embed(self, call: Call, *, client: Client, request_id: str, permit: Permit) -> Answer:
        """Return the vectors of *call*, whose row is then committed as completed; raises GatewayError.

        The call goes on where the caller gives up, so that its row tells how it ended; *permit* is held until then.
        """
        target = await self._target(call, client)
        check_dimensions(call, target.deployment.identity)
        entry = started(call, target, client=client, request_id=request_id)
        task = asyncio.create_task(self._carry(call, target, entry))
        permit.keep()
        task.add_done_callback(lambda _task: permit.release())
        self._under_way.add(task)
        task.add_done_callback(self._under_way.discard)
        return await asyncio.shield(task)

    def close(self) -> None:
        """End the threads that read."""
        self._readers.shutdown()

    async def _target(self, call: Call, client: Client) -> Target:
        lead = await self._read(
            lambda: store.find_lead(self._database, binding_id=client.project_binding_id, slug=slug_of(call.model))
        )
        return require_target(lead, model=call.model)

    async def _read(self, query: Callable[[], _Read]) -> _Read:
        try:
            return await asyncio.get_running_loop().run_in_executor(self._readers, query)
        except StoreError as error:
            logger.warning("The catalogue could not be read", exc_info=True)
            raise CatalogueUnavailable from error

    async def _carry(self, call: Call, target: Target, entry: Started) -> Answer:
        await self._log.write(entry)
        attempt = _Attempt(entry.request_id)
        try:
            return await self._ask(call, target.deployment, attempt)
        except GatewayError as error:
            attempt.error_code = error.code
            raise
        except asyncio.CancelledError:
            attempt.error_code = "interrupted"  # The process ends.
            raise
        except Exception as error:
            logger.exception("Unforeseen failure of %s", entry.request_id)
            attempt.error_code = Unforeseen.code
            raise Unforeseen from error
        finally:
            await self._log.write(attempt.ended())  # Where this fails, its error is the answer.

    async def _ask(self, call: Call, deployment: Deployment, attempt: _Attempt) -> Answer:
        """Return the embedding server's answer, checked; *attempt* notes what the row will tell of it."""
        texts = prompted(call, deployment.identity)
        with attempt.timed():
            answer = await self._upstream.embed(deployment, texts, request_id=attempt.request_id)
        attempt.tokens = answer.tokens
        attempt.is_truncated = was_truncated(
            answer,
            texts=texts,
            on_overlong=deployment.runtime.on_overlong,
            max_length=deployment.identity.max_length,
        )
        check_truncation(attempt.is_truncated, allows_truncation=deployment.allows_truncation)
        return answer


@dataclass
class _Attempt:
    """What one call upstream has come to so far."""

    request_id: str
    latency_ms: float = 0.0
    tokens: int | None = None
    is_truncated: bool | None = None
    error_code: str | None = None

    @contextmanager
    def timed(self) -> Iterator[None]:
        """Note how long the block takes, also where it fails."""
        began = time.perf_counter()
        try:
            yield
        finally:
            self.latency_ms = (time.perf_counter() - began) * 1000

    def ended(self) -> Ended:
        """Return the entry that ends the row."""
        return Ended(**vars(self))
