"""The request log's writer: one thread that commits everything queued at once.

A commit waits for the disk, and the entries that arrive meanwhile form the next commit: the busier the gateway, the
fewer commits an entry costs. Nothing waits on purpose.
"""

from __future__ import annotations

import asyncio
import logging
import queue
import threading
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from steelyard.hub.gateway import store
from steelyard.hub.gateway.domain.errors import LogUnavailable

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from steelyard.hub.db.database import Database
    from steelyard.hub.gateway.domain.entries import Entry

logger = logging.getLogger("steelyard.hub")
_MOST_ENTRIES = 512  # In one transaction, which also holds up every other writer.
_PATIENCE_S = 20.0  # More than the database's own limits, which say what is wrong.
_BAD_S = 10.0


@dataclass(frozen=True, eq=False)
class _Waiting:
    """An entry, and whoever waits until it is committed."""

    entry: Entry
    loop: asyncio.AbstractEventLoop
    future: asyncio.Future[None]


class RequestLog:
    """Commits entries, together unless *is_grouping* is off; `close` ends it once all are committed."""

    def __init__(self, database: Database, *, is_grouping: bool = True) -> None:
        self._database = database
        self._most = _MOST_ENTRIES if is_grouping else 1
        self._queue: queue.SimpleQueue[_Waiting | None] = queue.SimpleQueue()
        self._failed_at: float | None = None
        self._is_open = True
        self._gate = threading.Lock()  # Between `write` and the end: nothing is queued that nobody would take.
        self._thread = threading.Thread(target=self._run, name="gateway-log", daemon=True)
        self._thread.start()

    @property
    def is_healthy(self) -> bool:
        """Whether entries can be committed, as far as the last seconds tell."""
        has_failed = self._failed_at is not None and time.monotonic() - self._failed_at < _BAD_S
        return self._is_open and self._thread.is_alive() and not has_failed

    async def write(self, entry: Entry) -> None:
        """Return once *entry* is committed; raises LogUnavailable where it is not, or not known to be."""
        loop = asyncio.get_running_loop()
        waiting = _Waiting(entry=entry, loop=loop, future=loop.create_future())
        with self._gate:
            if not self._is_open:
                raise LogUnavailable
            self._queue.put(waiting)
        try:
            async with asyncio.timeout(_PATIENCE_S):
                await waiting.future
        except TimeoutError:
            raise LogUnavailable from None

    def close(self) -> None:
        """Take no more entries, commit those that are queued, and end the thread."""
        with self._gate:
            if self._is_open:
                self._is_open = False
                self._queue.put(None)
        self._thread.join()

    def _run(self) -> None:
        batch: list[_Waiting] = []
        try:
            while batch := self._next():
                self._commit(batch)
        except BaseException:
            logger.critical("The request log's writer has ended; no request can be answered", exc_info=True)
            raise
        finally:
            self._refuse(batch)

    def _next(self) -> list[_Waiting]:
        """Wait for entries and return all that are there, in their order; none at the end."""
        batch: list[_Waiting] = []
        item = self._queue.get()
        while item is not None:
            batch.append(item)
            if len(batch) == self._most or self._queue.empty():
                return batch
            item = self._queue.get()
        if batch:
            self._queue.put(None)  # The end, again, after this batch.
        return batch

    def _commit(self, batch: Sequence[_Waiting]) -> None:
        try:
            store.commit(self._database, [waiting.entry for waiting in batch])
        except Exception as error:
            if len(batch) > 1 and store.is_about_a_row(error):
                for waiting in batch:  # One by one, so that only the entry at fault fails.
                    self._commit([waiting])
                return
            logger.exception("%d entries of the request log could not be committed", len(batch))
            self._failed_at = None if store.is_about_a_row(error) else time.monotonic()
            _settle(batch, LogUnavailable())
        else:
            self._failed_at = None
            _settle(batch, None)

    def _refuse(self, batch: Sequence[_Waiting]) -> None:
        """Take no more entries, and tell everybody whose entry is not committed."""
        with self._gate:
            self._is_open = False
        while not self._queue.empty():
            if (waiting := self._queue.get()) is not None:
                batch = [*batch, waiting]
        _settle(batch, LogUnavailable())


def _settle(batch: Iterable[_Waiting], error: Exception | None) -> None:
    """Wake everybody who waits for *batch*: one call for each event loop, and usually there is one."""
    loops: dict[asyncio.AbstractEventLoop, list[asyncio.Future[None]]] = {}
    for waiting in batch:
        loops.setdefault(waiting.loop, []).append(waiting.future)
    for loop, futures in loops.items():
        try:
            loop.call_soon_threadsafe(_wake, futures, error)
        except RuntimeError:  # The loop is closed: nobody waits any more.
            logger.warning("%d entries of the request log were settled after their loop had ended", len(futures))


def _wake(futures: Iterable[asyncio.Future[None]], error: Exception | None) -> None:
    for future in futures:
        if future.done():  # Whoever waited has given up.
            continue
        if error is None:
            future.set_result(None)
        else:
            future.set_exception(error)
