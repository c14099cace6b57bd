"""The one thread that may call the engine: it is the lock.

Jobs run one after another in the order they came. A job that was cancelled before its turn never runs. Whoever waits
for a job may leave; the job that is running then still ends before the next one starts.
"""

from __future__ import annotations

import gc
import logging
import threading
import time
import traceback
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TYPE_CHECKING, TypeVar

from steelyard.decide.domain.errors import DecideError, OutOfMemory, ScoringFailed, is_out_of_memory

if TYPE_CHECKING:
    from collections.abc import Callable

    from steelyard.decide.domain.ports import Engine

T = TypeVar("T")
logger = logging.getLogger("steelyard.decide")


class ModelThread:
    """Owns the engine from now on. *warm_up* scores the warm-up row; *on_poisoned* hears that it failed."""

    def __init__(
        self, engine: Engine, *, warm_up: Callable[[Engine], object], on_poisoned: Callable[[], object]
    ) -> None:
        self._engine = engine
        self._warm_up = warm_up
        self._on_poisoned = on_poisoned
        self._executor = ThreadPoolExecutor(max_workers=1, thread_name_prefix="model")
        self._running_since: float | None = None
        self._poisoned = threading.Event()

    @property
    def engine(self) -> Engine:
        """The engine, for its facts only; its calls belong to this thread."""
        return self._engine

    @property
    def is_poisoned(self) -> bool:
        """Tell whether the engine no longer scores at all; every job fails from then on."""
        return self._poisoned.is_set()

    @property
    def running_seconds(self) -> float | None:
        """How long the running call has been running; None where none is."""
        since = self._running_since
        return None if since is None else time.monotonic() - since

    def submit(self, job: Callable[[Engine], T]) -> Future[T]:
        """Queue *job*. Its future holds its result, its ValueError, or an OutOfMemory or ScoringFailed."""
        return self._executor.submit(self._run, job)

    def close(self) -> None:
        """Let the running job end, drop the others and unload the engine."""
        self._executor.shutdown(wait=True, cancel_futures=True)
        self._engine.close()

    def _run(self, job: Callable[[Engine], T]) -> T:
        if self.is_poisoned:
            raise ScoringFailed("The model stopped answering and the server is going down")
        self._running_since = time.monotonic()
        try:
            return self._guarded(job)
        finally:
            self._running_since = None

    def _guarded(self, job: Callable[[Engine], T]) -> T:
        failure: DecideError
        try:
            result = job(self._engine)
        except ValueError:
            self._tidy(failed=False)
            raise
        except Exception as error:  # Whatever an engine raises must end as one of two errors.
            failure = _translated(error)
        else:
            self._tidy(failed=False)
            return result
        # The failed call's frames, and the tensors they hold, are freed only now that its exception is gone.
        gc.collect()
        if self._tidy(failed=True) and isinstance(failure, ScoringFailed):
            self._check_still_scores()
        raise failure

    def _tidy(self, *, failed: bool) -> bool:
        """Tell whether the engine tidied. One that cannot may be poisoned, so it must show that it still scores."""
        try:
            self._engine.tidy(failed=failed)
        except Exception:
            logger.exception("Giving memory back failed")
            self._check_still_scores()
            return False
        return True

    def _check_still_scores(self) -> None:
        """Score the warm-up row again: a poisoned engine would serve errors for ever."""
        try:
            self._warm_up(self._engine)
        except Exception:
            logger.exception("The warm-up row no longer scores after a failure; the process ends for its supervisor")
            self._poisoned.set()
            self._on_poisoned()


def _translated(error: Exception) -> DecideError:
    """Return the error that callers see in place of *error*, with no link to it.

    The log gets texts only: a handler that keeps its records would keep the error, and the tensors in its frames.
    """
    if is_out_of_memory(error):
        logger.warning("Out of memory while scoring: %s", str(error))
        return OutOfMemory(str(error))
    logger.error("Scoring failed\n%s", "".join(traceback.format_exception(error)))
    return ScoringFailed(str(error) if isinstance(error, ScoringFailed) else None)
