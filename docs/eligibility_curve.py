"""Writes into docs/evaluation.md how often a comparison passes, by simulation, in two minutes.

With --check it writes nothing and fails where the page is out of date.

What is simulated are the differences of nDCG by case; what decides is the product's own bootstrap and rule.
"""

from __future__ import annotations

import argparse
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from steelyard.hub.comparisons.domain.eligibility import Rule
from steelyard.hub.comparisons.domain.statistics import RESAMPLES, Floats, resamples

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    # It draws differences with a given mean, a row for each comparison and a column for each case.
    Shape: TypeAlias = Callable[[np.random.Generator, tuple[int, int], float], Floats]

PAGE = Path(__file__).parent / "evaluation.md"
PART = re.compile(r"(<!-- eligibility curve -->\n).*?(<!-- end -->)", re.DOTALL)
MARGIN = Rule().margin
COUNTS = (30, 50, 75, 100)
SPREADS = (0.05, 0.1, 0.15, 0.2, 0.25, 0.3)
RUNS = 2000
_SEED = "c0ffee" * 10 + "c0ff"
_RUNS_AT_ONCE = 200
_FIVE_PERCENT = 500  # The rank, of 10,000 resamples, of the lower one-sided bound.
# What a case's nDCG may be: nothing found, found at some rank, several found, all found first.
_LEVELS = np.array([0.0, 0.3, 0.39, 0.43, 0.5, 0.63, 0.75, 0.9, 1.0])
_WEIGHTS = np.array([0.1, 0.05, 0.05, 0.1, 0.1, 0.15, 0.1, 0.1, 0.25])


def normal(spread: float) -> Shape:
    """Return differences that are normal."""
    return lambda source, size, mean: source.normal(mean, spread, size)


def _half_tie(source: np.random.Generator, size: tuple[int, int], mean: float) -> Floats:
    return np.where(source.random(size) < 0.5, 0.0, source.normal(2 * mean, 0.28, size))


def _most_tie(source: np.random.Generator, size: tuple[int, int], mean: float) -> Floats:
    return np.where(source.random(size) < 0.8, 0.0, source.normal(5 * mean, 0.43, size))


def _tail_of_gains(source: np.random.Generator, size: tuple[int, int], mean: float) -> Floats:
    return mean - 0.2 + source.exponential(0.2, size)


def _tail_of_losses(source: np.random.Generator, size: tuple[int, int], mean: float) -> Floats:
    return -_tail_of_gains(source, size, -mean)


def _ranked_anew(kept: float) -> Shape:
    """Return differences of nDCG where one case in five has a new one of the same distribution.

    The candidate is worse in that some cases keep only the share *kept* of their nDCG: 0.63 where the only relevant
    chunk falls from the first rank to the second, 0 where it is lost.
    """

    def draw(source: np.random.Generator, size: tuple[int, int], mean: float) -> Floats:
        current, drawn = source.choice(_LEVELS, p=_WEIGHTS, size=(2, *size))
        candidate = np.where(source.random(size) < 0.2, drawn, current)
        is_lower = source.random(size) < -mean / (_LEVELS @ _WEIGHTS) / (1 - kept)
        differences: Floats = np.where(is_lower, kept * candidate, candidate) - current
        return differences

    return draw


def _lost_outright(source: np.random.Generator, size: tuple[int, int], mean: float) -> Floats:
    return -(source.random(size) < -mean).astype(float)


SHAPES: dict[str, Shape] = {
    "normal": normal(0.2),
    "half of the cases tie, the others are normal": _half_tie,
    "one case in five is ranked anew; the worse candidate ranks lower": _ranked_anew(0.63),
    "a long tail of gains": _tail_of_gains,
    "one case in five is ranked anew; the worse candidate finds nothing in some": _ranked_anew(0.0),
    "a long tail of losses": _tail_of_losses,
    "four of five cases tie, the others are normal": _most_tie,
    "one case in twenty falls from 1 to 0, the others tie": _lost_outright,
}


def pass_rate(shape: Shape, *, mean: float, count: int, runs: int = RUNS) -> float:
    """Return the share of *runs* comparisons over *count* cases that pass; the candidate's true gain is *mean*."""
    source = np.random.default_rng([count, runs])
    return float((lower_bounds(shape(source, (runs, count), mean)) > -MARGIN).mean())


def lower_bounds(differences: Floats) -> Floats:
    """Return the lower one-sided 95 % bound of each row, as a comparison has it; they share their resamples."""
    count = differences.shape[1]
    drawn = resamples(count, seed=_SEED) / count
    starts = range(0, len(differences), _RUNS_AT_ONCE)
    return np.concatenate([_lower(drawn @ differences[start : start + _RUNS_AT_ONCE].T) for start in starts])


def _lower(means: Floats) -> Floats:
    bounds: Floats = np.partition(means, _FIVE_PERCENT - 1, axis=0)[_FIVE_PERCENT - 1]
    return bounds


def tables() -> Iterator[str]:
    """Yield the lines of both tables."""
    yield from _table("spread of the differences", {f"{spread:g}": normal(spread) for spread in SPREADS})
    yield ""
    yield from _table("the differences, spread about 0.2", SHAPES)


def _table(title: str, shapes: dict[str, Shape]) -> Iterator[str]:
    yield "| " + " | ".join([title, *(f"{count} cases" for count in COUNTS)]) + " |"
    yield "| --- |" + " --- |" * len(COUNTS)
    for name, shape in shapes.items():
        yield row(name, shape)


def row(name: str, shape: Shape) -> str:
    """Return a row: for each count of cases, how often an equal candidate passes, and one worse by the margin."""
    cells = (
        " / ".join(f"{pass_rate(shape, mean=mean, count=count):.0%}" for mean in (0.0, -MARGIN)) for count in COUNTS
    )
    return f"| {name} | " + " | ".join(cells) + " |"


def main() -> None:
    """Write or check the page."""
    assert RESAMPLES == 10_000  # noqa: S101  # The bound's rank stands on it.
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing; fail where the page is out of date")
    before = PAGE.read_text(encoding="utf-8")
    lines = "\n".join(tables())
    after = PART.sub(lambda match: f"{match[1]}{lines}\n{match[2]}", before)
    if not parser.parse_args().check:
        PAGE.write_text(after, encoding="utf-8")
    elif before != after:
        sys.exit("out of date: evaluation.md; run: python docs/eligibility_curve.py")


if __name__ == "__main__":
    main()
