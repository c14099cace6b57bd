"""The rows that wait for the model, job by job.

The job that has gone longest without a row in a batch is served next, so that one with very many rows holds up no
other. A job that nobody waits for any more is forgotten before its rows are chosen. The caller sees to it that one
thread at a time is in here.
"""

from __future__ import annotations

from collections import deque
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from steelyard.embed.domain.batches import choose

if TYPE_CHECKING:
    from collections.abc import Sequence

    from steelyard.embed.domain.batches import BatchLimits
    from steelyard.embed.domain.errors import EmbedError
    from steelyard.embed.domain.ports import Tokens, Vector

_CANDIDATES = 512  # Among so many rows a batch is chosen; sorting more would take longer than it saves.


@dataclass(eq=False)
class Job:
    """One request's rows (at least one), and its vectors as they come; *future* holds them all, in the rows' order."""

    rows: Sequence[Tokens]
    future: Future[list[Vector]] = field(default_factory=Future)
    vectors: dict[int, Vector] = field(default_factory=dict)
    started: float | None = None

    @property
    def is_wanted(self) -> bool:
        """Tell whether anybody waits for the vectors: a caller that leaves cancels the future."""
        return not self.future.done()

    def put(self, row: int, vector: Vector) -> None:
        """Take one row's vector."""
        self.vectors[row] = vector
        if len(self.vectors) == len(self.rows) and self._is_ending():
            self.future.set_result([self.vectors[place] for place in range(len(self.rows))])

    def fail(self, error: EmbedError) -> None:
        """End with *error*, unless it has ended."""
        if self._is_ending():
            self.future.set_exception(error)

    def _is_ending(self) -> bool:
        """Tell whether the future may be filled now; from here on it cannot be cancelled."""
        return not self.future.done() and self.future.set_running_or_notify_cancel()


class Place(NamedTuple):
    """One row of one job."""

    job: Job
    row: int

    @property
    def tokens(self) -> Tokens:
        """The row's tokens."""
        return self.job.rows[self.row]


class Queue:
    """The waiting rows; every row leaves it once, or with its job."""

    def __init__(self, limits: BatchLimits) -> None:
        self._limits = limits
        self._waiting: deque[tuple[Job, deque[int]]] = deque()

    def __len__(self) -> int:
        return sum(len(rows) for _job, rows in self._waiting)

    def add(self, job: Job) -> None:
        """Let all rows of *job* wait, longest first."""
        rows = sorted(range(len(job.rows)), key=lambda row: -len(job.rows[row]))
        self._waiting.append((job, deque(rows)))

    def clear(self) -> list[Job]:
        """Forget every row and return their jobs."""
        jobs = [job for job, _rows in self._waiting]
        self._waiting.clear()
        return jobs

    def take(self) -> list[Place]:
        """Remove and return the rows that run together now, longest first; none where none is wanted."""
        self._waiting = deque(entry for entry in self._waiting if entry[0].is_wanted)
        if not self._waiting:
            return []
        share = max(1, _CANDIDATES // len(self._waiting))
        candidates = [Place(job, rows.popleft()) for job, rows in self._waiting for _ in range(min(share, len(rows)))]
        chosen = choose([len(place.tokens) for place in candidates], limits=self._limits)
        self._put_back(candidates, chosen=set(chosen))
        return [candidates[index] for index in chosen]

    def _put_back(self, candidates: Sequence[Place], *, chosen: set[int]) -> None:
        """Let those of *candidates* that are not *chosen* wait on, and put the jobs that were served behind others."""
        waiting = {id(job): rows for job, rows in self._waiting}
        for index in reversed(range(len(candidates))):
            if index not in chosen:
                waiting[id(candidates[index].job)].appendleft(candidates[index].row)
        served = {id(candidates[index].job) for index in chosen}
        order = sorted(self._waiting, key=lambda entry: id(entry[0]) in served)
        self._waiting = deque(entry for entry in order if entry[1])
