"""What one load on a server saw."""

from __future__ import annotations

import statistics
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from collections.abc import Sequence


@dataclass(frozen=True)
class Figures:
    """How many answers came per second, and how long one took."""

    per_s: float
    p50_ms: float
    p99_ms: float

    @classmethod
    def of(cls, latencies: Sequence[float], *, took_s: float) -> Self:
        """Return the figures of answers that took *latencies* seconds each, all within *took_s*."""
        cuts = statistics.quantiles(latencies, n=100)
        return cls(per_s=len(latencies) / took_s, p50_ms=1000 * cuts[49], p99_ms=1000 * cuts[98])
