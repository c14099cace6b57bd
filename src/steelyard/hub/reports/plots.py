"""Where everything stands in a report's plots: the template draws, the numbers come from here.

Across, a place is a percentage, so that text keeps its size in every width.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from steelyard.hall.texts import shorten
from steelyard.hub.reports.document import CLOCKS, LEGS
from steelyard.hub.reports.figures import interval, milliseconds, signed

if TYPE_CHECKING:
    from collections.abc import Sequence

    from steelyard.hub.reports.document import Case, Metric, Report

_LEFT, _RIGHT = 3.0, 97.0
_BINS = 24
_SKEWED = 30  # From this ratio of the longest to the shortest time on, the axis is logarithmic.
_MOST_POWERS = 4
_QUERY = 120
_STEPS = (1.0, 2.0, 5.0, 10.0)


@dataclass(frozen=True)
class Tick:
    """A mark on an axis."""

    at: float
    label: str


@dataclass(frozen=True)
class Axis:
    """What the left and the right end of a plot stand for."""

    least: float
    most: float
    is_log: bool = False

    def at(self, value: float) -> float:
        """Return where *value* stands, in percent of the width."""
        low, high, here = (math.log(x) if self.is_log else x for x in (self.least, self.most, value))
        return round(_LEFT + (_RIGHT - _LEFT) * (here - low) / (high - low), 2)


@dataclass(frozen=True)
class Delta:
    """A metric's difference with its interval, across; *figures* says the same in numbers."""

    title: str
    figures: str
    low: float
    middle: float
    high: float
    margin: float | None


@dataclass(frozen=True)
class Deltas:
    """The metrics' differences over one axis; *zero* is where nothing changes."""

    rows: tuple[Delta, ...]
    zero: float
    ticks: tuple[Tick, ...]
    margin: str


@dataclass(frozen=True)
class Bar:
    """A case's improvement: its left end and width in percent, its top and height in pixels of a height of 100."""

    left: float
    width: float
    top: float
    height: float
    kind: str
    told: str


@dataclass(frozen=True)
class Bars:
    """All cases from the largest loss to the largest gain; *most* is what the whole half height stands for."""

    bars: tuple[Bar, ...]
    most: str
    title: str
    counts: str


@dataclass(frozen=True)
class Times:
    """How one leg's latencies are spread by one clock: bars of a height up to 40, and the percentiles."""

    leg: str
    clock: str
    bars: tuple[Bar, ...]
    marks: tuple[Tick, ...]


@dataclass(frozen=True)
class Spread:
    """The latencies of both legs over one axis."""

    rows: tuple[Times, ...]
    ticks: tuple[Tick, ...]
    is_log: bool


def deltas(report: Report) -> Deltas | None:
    """Return the metrics' differences; None where there is nothing to draw."""
    known = [metric for metric in report.metrics if metric.delta is not None]
    if not known or report.verdict is None:
        return None
    margin = float(report.verdict.rule["margin"])
    limits = [value for metric in known for value in (*_bounds(metric), *_margin(metric, margin), 0.0)]
    axis = _padded(min(limits), max(limits))
    rows = tuple(_delta(metric, axis, margin) for metric in known)
    return Deltas(rows, axis.at(0.0), _ticks(axis), f"{margin:g}")


def _bounds(metric: Metric) -> tuple[float, float, float]:
    middle = metric.delta or 0.0
    low, high = metric.interval or (middle, middle)
    return low, middle, high


def _margin(metric: Metric, margin: float) -> tuple[float, ...]:
    """Return the difference that is too much, of the metric that decides."""
    worse = -margin if metric.higher_is_better else margin
    return (worse,) if metric.is_primary else ()


def _delta(metric: Metric, axis: Axis, margin: float) -> Delta:
    low, middle, high = (axis.at(value) for value in _bounds(metric))
    limit = _margin(metric, margin)
    figures = f"{signed(metric.delta)} {interval(metric.interval)}"
    return Delta(shorten(metric.title), figures, low, middle, high, axis.at(limit[0]) if limit else None)


def _padded(least: float, most: float) -> Axis:
    pad = (most - least) * 0.04 or 0.05
    return Axis(least - pad, most + pad)


def _ticks(axis: Axis) -> tuple[Tick, ...]:
    """Return two to six marks at round numbers."""
    raw = (axis.most - axis.least) / 5
    power = 10.0 ** math.floor(math.log10(raw))
    step = next(power * factor for factor in _STEPS if power * factor >= raw * 0.999)
    digits = max(0, -math.floor(math.log10(step)))
    first, last = math.ceil(axis.least / step), math.floor(axis.most / step)
    return tuple(Tick(axis.at(n * step), signed(n * step, digits=digits)) for n in range(first, last + 1))


def case_bars(report: Report) -> Bars | None:
    """Return the cases by what the primary metric says of them; None where there is nothing to draw."""
    known = [case for case in report.cases if case.improvement is not None]
    if not known or report.primary is None:
        return None
    ordered = sorted(known, key=_improvement)
    most = max(abs(_improvement(case)) for case in ordered) or 1.0
    width = (_RIGHT - _LEFT) / len(ordered)
    bars = tuple(_bar(case, most, left=_LEFT + place * width, width=width) for place, case in enumerate(ordered))
    return Bars(bars, f"{most:.2f}", shorten(report.primary.title), _counts(bars))


def _improvement(case: Case) -> float:
    return case.improvement or 0.0


def _bar(case: Case, most: float, *, left: float, width: float) -> Bar:
    value = _improvement(case)
    height = round(50 * abs(value) / most, 2)
    kind = "gain" if value > 0 else "loss" if value < 0 else "tie"
    return Bar(
        left=round(left + width * 0.08, 3),
        width=round(width * 0.84, 3),
        top=round(50 - height, 2) if value > 0 else 49 if kind == "tie" else 50,
        height=2 if kind == "tie" else height,
        kind=f"{kind} critical" if case.is_critical else kind,
        told=f"{signed(case.delta)} {shorten(case.query, limit=_QUERY)}",
    )


def _counts(bars: Sequence[Bar]) -> str:
    kinds = [bar.kind.partition(" ")[0] for bar in bars]
    return f"{kinds.count('loss')} worse, {kinds.count('tie')} equal, {kinds.count('gain')} better"


def spread(report: Report) -> Spread | None:
    """Return how the latencies are spread; None where none is known."""
    known = [
        (leg, clock, report.legs[leg].latencies_ms[clock])
        for leg in LEGS
        for clock in CLOCKS
        if leg in report.legs and report.legs[leg].latencies_ms[clock]
    ]
    if not known:
        return None
    axis = _time_axis([value for _, _, values in known for value in values])
    rows = tuple(_times(report, leg, clock, axis) for leg, clock, _ in known)
    return Spread(rows, _time_ticks(axis), axis.is_log)


def _time_axis(values: Sequence[float]) -> Axis:
    least, most = min(values), max(values)
    if least > 0 and most / least >= _SKEWED:
        return Axis(least * 0.9, most * 1.1, is_log=True)
    return Axis(0.0, most * 1.04 or 1.0)


def _time_ticks(axis: Axis) -> tuple[Tick, ...]:
    if not axis.is_log:
        return tuple(Tick(tick.at, tick.label.lstrip("+")) for tick in _ticks(axis))
    powers = range(math.floor(math.log10(axis.least)), math.ceil(math.log10(axis.most)) + 1)
    steps = (1, 10) if len(powers) > _MOST_POWERS else _STEPS
    values = sorted({step * 10.0**power for power in powers for step in steps})
    return tuple(Tick(axis.at(value), f"{value:g}") for value in values if axis.least <= value <= axis.most)


def _times(report: Report, leg: str, clock: str, axis: Axis) -> Times:
    of_leg = report.legs[leg]
    shown = ((name, of_leg.percentiles_ms[clock].get(name)) for name in ("p50", "p95"))
    marks = tuple(Tick(axis.at(value), f"{name} {milliseconds(value)}") for name, value in shown if value)
    return Times(leg, clock, _histogram(of_leg.latencies_ms[clock], axis), marks)


def _histogram(values: Sequence[float], axis: Axis) -> tuple[Bar, ...]:
    width = (_RIGHT - _LEFT) / _BINS
    places = [min(_BINS - 1, int((axis.at(value) - _LEFT) / width)) for value in values]
    tallest = max(places.count(place) for place in places)
    return tuple(
        Bar(
            left=round(_LEFT + place * width, 3),
            width=round(width * 0.9, 3),
            top=round(40 - 40 * places.count(place) / tallest, 2),
            height=round(40 * places.count(place) / tallest, 2),
            kind="time",
            told=str(places.count(place)),
        )
        for place in sorted(set(places))
    )
