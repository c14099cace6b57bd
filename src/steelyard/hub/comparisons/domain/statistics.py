"""Paired statistics of two legs over the same cases: bootstrap intervals, sign-flip p-values, percentiles.

It knows numbers only. Everything repeats bit by bit on any machine, from the seed alone: the random words are a
standard's, not a library's, and differences are counted in whole units of 1e-12, whose sums are exact in a double
in whatever order a processor adds them.
"""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from collections.abc import Sequence

Floats: TypeAlias = NDArray[np.float64]

RESAMPLES = 10_000
DECIMALS = 12  # Of everything that is stored.
MOST_ENUMERATED = 14  # Non-zero differences, of which all 2^14 flips are tried.
_UNITS_PER_ONE = 1e12
_INTERVAL_TAIL = 0.025
_ONE_SIDED_TAIL = 0.05


@dataclass(frozen=True, kw_only=True)
class Paired:
    """How a number of the candidate differs from the current's; every difference is candidate − current.

    *interval* is the two-sided 95 % one; *one_sided* has the two bounds that hold with 95 % each. *spread* is the
    sample standard deviation of the differences, 0 for a single case. *rises*, *ties* and *falls* count cases.
    """

    delta: float
    spread: float
    interval: tuple[float, float]
    one_sided: tuple[float, float]
    p_value: float
    rises: int
    ties: int
    falls: int

    def mirrored(self) -> Paired:
        """Return the same comparison with every difference turned round."""
        return replace(
            self,
            delta=-self.delta + 0.0,
            interval=_mirrored(self.interval),
            one_sided=_mirrored(self.one_sided),
            rises=self.falls,
            falls=self.rises,
        )


def _mirrored(bounds: tuple[float, float]) -> tuple[float, float]:
    return -bounds[1] + 0.0, -bounds[0] + 0.0


def rounded(value: float) -> float:
    """Return *value* as it is stored: to 12 decimals, and never a negative zero."""
    return round(float(value), DECIMALS) + 0.0


def mean(values: Sequence[float]) -> float:
    """Return the mean of at least one value, rounded as it is stored."""
    return rounded(math.fsum(values) / len(values))


def percentile(values: Sequence[float], percent: int) -> float | None:
    """Return the nearest-rank percentile: the smallest value that *percent* % of *values* do not exceed.

    It is always one of *values*; None for none. *percent* is from 1 to 100.
    """
    rank = -(-percent * len(values) // 100)  # Rounded up, in integers.
    return sorted(values)[rank - 1] if values else None


def compare(current: Sequence[Sequence[float]], candidate: Sequence[Sequence[float]], *, seed: str) -> list[Paired]:
    """Compare each number of two legs; both have, case by case and for at least one case, the same numbers in a row.

    All numbers are of a size up to 1 and share their resamples and flips, which follow from *seed* and the count of
    cases. Differences up to 1e-12 are ties.
    """
    units = np.rint((np.asarray(candidate, float) - np.asarray(current, float)) * _UNITS_PER_ONE)
    units[np.abs(units) <= 1] = 0  # What is equal on paper may have been rounded to neighbours.
    means = np.sort(resamples(len(units), seed=seed) @ units, axis=0) / len(units) / _UNITS_PER_ONE
    p_values = _p_values(units, seed=seed)
    return [_paired(units[:, place], means[:, place], p_values[place]) for place in range(units.shape[1])]


def resamples(count: int, *, seed: str) -> Floats:
    """Return how often each of *count* cases is drawn in each of 10,000 resamples, one a row."""
    words = _words(RESAMPLES * count, seed=f"{seed}:resamples").astype(np.uint64)
    # Multiply and shift maps a word of 32 bits to a case; with 100 cases no chance is off by more than 1 in 40 million.
    cases = ((words * np.uint64(count)) >> np.uint64(32)).astype(np.intp).reshape(RESAMPLES, count)
    places = cases + np.arange(RESAMPLES, dtype=np.intp)[:, np.newaxis] * count
    return np.bincount(places.ravel(), minlength=RESAMPLES * count).reshape(RESAMPLES, count).astype(float)


def _paired(units: Floats, means: Floats, p_value: float) -> Paired:
    return Paired(
        delta=rounded(units.sum() / len(units) / _UNITS_PER_ONE),
        spread=rounded(units.std(ddof=1) / _UNITS_PER_ONE) if len(units) > 1 else 0.0,
        interval=_bounds(means, tail=_INTERVAL_TAIL),
        one_sided=_bounds(means, tail=_ONE_SIDED_TAIL),
        p_value=p_value,
        rises=int((units > 0).sum()),
        ties=int((units == 0).sum()),
        falls=int((units < 0).sum()),
    )


def _bounds(means: Floats, *, tail: float) -> tuple[float, float]:
    """Return the percentile bootstrap's bounds from sorted *means*.

    With k = ⌊(B + 1)·tail⌋ they are the kth smallest and the kth largest of B means, so that exchanging the legs
    mirrors them: Efron & Tibshirani, An Introduction to the Bootstrap (1993), sections 12.5 and 13.3.
    """
    rank = math.floor((RESAMPLES + 1) * tail)
    return rounded(means[rank - 1]), rounded(means[-rank])


def _p_values(units: Floats, *, seed: str) -> list[float]:
    """Return each column's two-sided p-value of "which leg is which does not matter", by flipping signs.

    The statistic is the absolute sum of the differences: Fisher's randomisation test, as Smucker, Allan & Carterette,
    A Comparison of Statistical Significance Tests for Information Retrieval Evaluation (CIKM 2007), recommend it.
    """
    drawn = _drawn_flips(len(units), seed=seed)
    return [_exact(column[column != 0]) if _is_few(column) else _drawn(column, drawn) for column in units.T]


def _is_few(column: Floats) -> bool:
    return bool(np.count_nonzero(column) <= MOST_ENUMERATED)


def _exact(column: Floats) -> float:
    """Return the share of all flips that are as extreme; 1 where there is nothing to flip."""
    flips = (np.arange(1 << len(column))[:, np.newaxis] >> np.arange(len(column))) & 1
    return rounded(_extreme(column, flips.astype(float)) / len(flips))


def _drawn(column: Floats, flips: Floats) -> float:
    """Return the share of drawn flips that are as extreme.

    The observed signs count as one more draw, so that it is never 0: Phipson & Smyth, Permutation P-values Should
    Never Be Zero (2010).
    """
    return rounded((_extreme(column, flips) + 1) / (len(flips) + 1))


def _extreme(column: Floats, flips: Floats) -> int:
    """Count the flips, one a row, under which the sum is at least as far from zero as it is.

    A unit of tolerance for each difference makes up for their rounding, so that what is equal on paper ties.
    """
    total = column.sum()
    sums = np.abs(total - 2 * (flips @ column))
    return int((sums >= abs(total) - len(column)).sum())


def _drawn_flips(count: int, *, seed: str) -> Floats:
    """Return 10,000 rows that say of each of *count* differences whether it is flipped, 1, or not, 0."""
    words = _words(RESAMPLES * -(-count // 32), seed=f"{seed}:flips")
    bits = np.unpackbits(words.view(np.uint8), bitorder="little").reshape(RESAMPLES, -1)
    return bits[:, :count].astype(float)


def _words(count: int, *, seed: str) -> NDArray[np.uint32]:
    """Return *count* random words of 32 bits: the little-endian output of SHAKE-128 (FIPS 202) over *seed*.

    numpy promises a lasting stream for the raw words of its bit generators only (NEP 19), not for what its methods
    make of them. A standard's stream outlasts numpy, and any language can make it again to check a report.
    """
    return np.frombuffer(hashlib.shake_128(seed.encode("ascii")).digest(4 * count), dtype="<u4")
