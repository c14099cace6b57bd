"""Rates: so many per second and key, with a burst. Memory is bounded, whoever calls."""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

MOST_KEYS = 10_000


class Buckets:
    """A bucket of *burst* tokens per key, refilled at *per_second*. Used from the event loop only.

    Of more than MOST_KEYS keys the one that was asked for longest ago is forgotten, and starts full again.
    """

    def __init__(self, *, per_second: float, burst: int, clock: Callable[[], float]) -> None:
        self._per_second = per_second
        self._burst = burst
        self._clock = clock
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()  # Key to (tokens, when), oldest use first.

    def __len__(self) -> int:
        return len(self._buckets)

    def take(self, key: str) -> float:
        """Take a token of *key* and return 0; where it has none, return the seconds until it has one."""
        now = self._clock()
        tokens = self._tokens(key, now)
        is_given = tokens >= 1.0
        self._buckets[key] = (tokens - 1.0 if is_given else tokens, now)
        self._buckets.move_to_end(key)
        if len(self._buckets) > MOST_KEYS:
            self._buckets.popitem(last=False)
        return 0.0 if is_given else (1.0 - tokens) / self._per_second

    def _tokens(self, key: str, now: float) -> float:
        tokens, when = self._buckets.get(key, (float(self._burst), now))
        return min(float(self._burst), tokens + (now - when) * self._per_second)
