"""The one thread that may call the runtime: it batches rows across requests and outlives every failure.

A batch that fails is tried row by row, so that a request fails only with a row of its own. Whatever is raised in here
ends as a request's error, or, where the model no longer embeds at all, as the end of the process.
"""

from __future__ import annotations

import logging
import threading
import time
import traceback
from dataclasses import dataclass
from typing import TYPE_CHECKING

from steelyard.embed.domain.answers import check_finite
from steelyard.embed.domain.errors import EmbeddingFailed, EmbedError, OutOfMemory, is_out_of_memory
from steelyard.embed.domain.queue import Job, Queue

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from steelyard.embed.domain.batches import BatchLimits
    from steelyard.embed.domain.ports import Runtime, Tokens, Vector
    from steelyard.embed.domain.queue import Place

logger = logging.getLogger("steelyard.embed")
_ENDING = "The model stopped answering and the server is going down"


@dataclass(frozen=True)
class BatchCost:
    """What one call of the runtime was: rows, their tokens, the tokens that padding added, seconds."""

    rows: int
    tokens: int
    padding: int
    seconds: float


class Worker:
    """Owns the runtime from now on.

    *warm_up* embeds the warm-up text; *on_poisoned* hears that it failed after a failure, and that this thread ended;
    *on_batch* hears of every call.
    """

    def __init__(
        self,
        runtime: Runtime,
        *,
        limits: BatchLimits,
        warm_up: Callable[[Runtime], object],
        on_poisoned: Callable[[], object],
        on_batch: Callable[[BatchCost], object] = lambda _cost: None,
    ) -> None:
        self.runtime = runtime
        self._warm_up, self._on_poisoned, self._on_batch = warm_up, on_poisoned, on_batch
        self._queue = Queue(limits)
        self._news = threading.Condition()
        self._is_closing = False
        self._is_poisoned = False
        self._running_since: float | None = None
        self._thread = threading.Thread(target=self._run, name="model", daemon=True)
        self._thread.start()

    @property
    def running_seconds(self) -> float | None:
        """How long the running call has been running; None where none is."""
        since = self._running_since
        return None if since is None else time.monotonic() - since

    @property
    def waiting_rows(self) -> int:
        """How many rows wait for the model."""
        with self._news:
            return len(self._queue)

    def submit(self, rows: Sequence[Tokens]) -> Job:
        """Let *rows* wait. The job's future holds their vectors, in order, or an EmbedError; cancel it to drop them."""
        job = Job(rows)
        with self._news:
            if self._is_poisoned or self._is_closing:
                job.fail(EmbeddingFailed(_ENDING))
            else:
                self._queue.add(job)
                self._news.notify()
        return job

    def close(self) -> None:
        """Let the running call end, fail what waits and unload the model."""
        with self._news:
            self._is_closing = True
            self._news.notify()
        self._thread.join()
        self.runtime.close()

    def _run(self) -> None:
        batch: list[Place] = []
        try:
            while batch := self._next():
                self._embed(batch)
        except BaseException:
            logger.exception("The model thread met a fault of its own; the process ends for its supervisor")
            self._poison()
        finally:
            self._fail_all(batch)

    def _next(self) -> list[Place]:
        """Return the next batch once there is one, or nothing when the worker closes or is poisoned."""
        with self._news:
            while not (self._is_closing or self._is_poisoned):
                if batch := self._queue.take():
                    return batch
                self._news.wait()
        return []

    def _embed(self, batch: Sequence[Place]) -> None:
        now = time.monotonic()
        for place in batch:
            place.job.started = place.job.started or now
        try:
            vectors = self._call([place.tokens for place in batch])
        except Exception as error:  # Whatever a runtime raises must end as one of two errors.
            self._failed(batch, error)
        else:
            for place, vector in zip(batch, vectors, strict=True):
                self._settle(place, vector)

    def _call(self, rows: Sequence[Tokens]) -> list[Vector]:
        self._running_since = started = time.monotonic()
        try:
            vectors = self.runtime.embed(rows)
        finally:
            self._running_since = None
        tokens = sum(map(len, rows))
        padding = len(rows) * max(map(len, rows)) - tokens
        self._on_batch(BatchCost(len(rows), tokens, padding, time.monotonic() - started))
        return vectors

    def _settle(self, place: Place, vector: Vector) -> None:
        try:
            check_finite(vector)
        except EmbeddingFailed as error:
            logger.error("A vector was not finite")  # noqa: TRY400  # The trace would tell nothing more.
            place.job.fail(error)
        else:
            place.job.put(place.row, vector)

    def _failed(self, batch: Sequence[Place], error: Exception) -> None:
        if len(batch) == 1:
            batch[0].job.fail(_translated(error))
            self._check_still_embeds()
            return
        logger.warning("A batch of %d rows failed and is tried row by row: %s", len(batch), type(error).__name__)
        for place in batch:
            if self._is_poisoned:
                place.job.fail(EmbeddingFailed(_ENDING))
            elif place.job.is_wanted:
                self._embed([place])

    def _check_still_embeds(self) -> None:
        """Embed the warm-up text again: a poisoned model would serve errors for ever."""
        try:
            self._warm_up(self.runtime)
        except Exception:
            logger.exception("The warm-up text no longer embeds after a failure; the process ends for its supervisor")
            self._poison()

    def _poison(self) -> None:
        self._is_poisoned = True
        self._on_poisoned()

    def _fail_all(self, batch: Sequence[Place]) -> None:
        """Fail every job there is: this thread ends, so nothing would ever come."""
        with self._news:
            self._is_closing = True
            jobs = [place.job for place in batch] + self._queue.clear()
        for job in jobs:
            job.fail(EmbeddingFailed(_ENDING))


def _translated(error: Exception) -> EmbedError:
    """Return the error that callers see in place of *error*, with no link to it."""
    if is_out_of_memory(error):
        logger.warning("Out of memory while embedding")
        return OutOfMemory()
    logger.error("Embedding failed\n%s", "".join(traceback.format_exception(error)))
    return EmbeddingFailed()
