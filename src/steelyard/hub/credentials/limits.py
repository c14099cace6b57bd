"""How often a credential may call, and how often an address may fail to authenticate: token buckets in memory.

Each process counts for itself: behind several, a limit holds that many times over.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

_MOST_KEYS = 10_000


class Buckets:
    """A bucket of *burst* tokens per key, refilled at *per_second*. Used from the event loop only."""

    def __init__(self, *, per_second: float, burst: int, clock: Callable[[], float]) -> None:
        self._per_second = per_second
        self._burst = burst
        self._clock = clock
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()  # Key to (tokens, when), oldest use first.

    def take(self, key: str) -> float:
        """Take a token of *key* and return 0; where it has none, return the seconds until it has one."""
        tokens = self._tokens(key)
        if tokens < 1.0:
            return (1.0 - tokens) / self._per_second
        self._buckets[key] = (tokens - 1.0, self._clock())
        self._buckets.move_to_end(key)
        if len(self._buckets) > _MOST_KEYS:
            self._buckets.popitem(last=False)
        return 0.0

    def _tokens(self, key: str) -> float:
        tokens, when = self._buckets.get(key, (float(self._burst), self._clock()))
        return min(float(self._burst), tokens + (self._clock() - when) * self._per_second)
