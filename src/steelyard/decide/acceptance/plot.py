"""The picture of an acceptance run: how far each row's probabilities moved, and how often the passes agree.

Only this module may load matplotlib, and only when it draws.
"""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING, NamedTuple

from steelyard.decide.acceptance.checks import CONTROL, MOST_CONTROL_AGREEMENT, NOISE, PARITY, SHARED, Verdict
from steelyard.decide.acceptance.errors import AcceptanceRefused

if TYPE_CHECKING:
    from pathlib import Path

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from steelyard.decide.acceptance.outcome import Outcome

FILE_NAME = "report.png"
_INCHES = (12.0, 5.4)
_DOTS_PER_INCH = 110
_SMALLEST_GAP = 1e-6  # Below it the axis is linear, so that a gap of zero has its place.
_INK, _PALE, _GRID = "#1f2933", "#6b7785", "#e4e8ec"
_COLOURS = {PARITY: "#b4552d", NOISE: "#2f7d6b", SHARED: "#3465a4", CONTROL: "#8a6bb1", "accuracy": "#7b8794"}
_LABELS = {
    PARITY: "parity: reference and direct",
    NOISE: "noise floor: direct twice",
    SHARED: "shared and direct",
    CONTROL: "negative control: rotated descriptions",
}
_VERDICT_COLOURS = {Verdict.PASSED: "#2f7d6b", Verdict.FAILED: "#b3261e"}


class _Bar(NamedTuple):
    """One fraction of the rows, from 0 to 1."""

    label: str
    value: float
    colour: str


def require_matplotlib() -> None:
    """Raise AcceptanceRefused where matplotlib is not installed, before hours of scoring end without a picture."""
    if find_spec("matplotlib") is None:
        raise AcceptanceRefused("the plot needs matplotlib; pip install 'steelyard[plots]', or give --no-plot")


def draw(outcome: Outcome, path: Path, *, title: str) -> None:
    """Write the picture as a PNG under 200 KB; *title* is taken letter by letter, whatever it holds."""
    from matplotlib.figure import Figure  # noqa: PLC0415  # The extra `plots` is not always installed.

    figure = Figure(figsize=_INCHES, layout="constrained")
    left, right = figure.subplots(1, 2, width_ratios=(1.15, 1.0))
    figure.get_layout_engine().set(w_pad=0.14, h_pad=0.1, rect=(0.0, 0.0, 1.0, 0.86))  # type: ignore[union-attr, call-arg]
    _draw_head(figure, outcome, title)
    _draw_gaps(left, outcome)
    _draw_bars(right, _bars(outcome))
    figure.savefig(path, dpi=_DOTS_PER_INCH, facecolor="white", metadata={"Software": None})


def _draw_head(figure: Figure, outcome: Outcome, title: str) -> None:
    # The font has no glyphs for every script, and a dollar sign would begin a formula.
    plain = title.encode("ascii", "replace").decode("ascii")
    figure.text(0.012, 0.945, plain, size=15, weight="bold", color=_INK, parse_math=False)
    place = 0.012
    for check in outcome.checks:
        colour = _VERDICT_COLOURS.get(check.verdict, _PALE)
        figure.text(place, 0.885, f"{check.name}", size=9.5, color=_INK)
        figure.text(place, 0.850, check.verdict, size=9.5, weight="bold", color=colour)
        place += 0.155


def _draw_gaps(axes: Axes, outcome: Outcome) -> None:
    compared = {name: outcome.comparisons[name] for name in (PARITY, SHARED, NOISE) if name in outcome.comparisons}
    axes.set_title("Largest probability gap of each row, sorted", loc="left", size=11, color=_INK)
    for name, comparison in compared.items():
        gaps = sorted(comparison.gaps)
        places = [100 * (place + 1) / len(gaps) for place in range(len(gaps))]
        label = f"{_LABELS[name]}, at most {comparison.largest_gap:.2g}"
        axes.plot(places, gaps, color=_COLOURS[name], label=label, linewidth=2.0, drawstyle="steps-pre")
    axes.set_yscale("symlog", linthresh=_SMALLEST_GAP)
    axes.set_ylim(-_SMALLEST_GAP / 2, 1.0)
    axes.set_xlim(0, 100)
    axes.set_xlabel("rows, %", color=_PALE)
    axes.set_ylabel("gap in probability", color=_PALE)
    _tidy(axes, grid="y")
    if compared:
        axes.legend(loc="lower center", bbox_to_anchor=(0.5, -0.42), frameon=False, fontsize=9.5, labelcolor=_INK)


def _bars(outcome: Outcome) -> list[_Bar]:
    """Return the bars from the bottom up: accuracy below, agreement above."""
    accuracies = [
        _Bar(f"accuracy, {name}", value, _COLOURS["accuracy"])
        for name, value in reversed([*outcome.accuracy.items()])
        if value is not None
    ]
    agreements = [
        _Bar(f"agreement, {name}", outcome.comparisons[name].agreement, _COLOURS[name])
        for name in (CONTROL, SHARED, NOISE, PARITY)
        if name in outcome.comparisons
    ]
    return accuracies + agreements


def _draw_bars(axes: Axes, bars: list[_Bar]) -> None:
    axes.set_title("Top option: same as the other pass, and right", loc="left", size=11, color=_INK)
    axes.barh([bar.label for bar in bars], [bar.value for bar in bars], color=[bar.colour for bar in bars], height=0.6)
    for place, bar in enumerate(bars):
        axes.text(bar.value + 0.015, place, f"{bar.value:.3f}", va="center", size=9.5, color=_INK)
        if bar.label.endswith(CONTROL):
            axes.plot([MOST_CONTROL_AGREEMENT] * 2, [place - 0.42, place + 0.42], color=_INK, linestyle=":")
    axes.set_xlim(0, 1.12)
    axes.set_xticks([0, 0.25, 0.5, 0.75, 1])
    axes.set_xlabel("fraction of rows (dotted: the most that the negative control may reach)", color=_PALE)
    _tidy(axes, grid="x")
    axes.tick_params(axis="y", length=0, labelcolor=_INK)


def _tidy(axes: Axes, *, grid: str) -> None:
    axes.grid(axis=grid, color=_GRID, linewidth=0.8)  # type: ignore[arg-type]  # One of matplotlib's literals.
    axes.set_axisbelow(True)
    axes.tick_params(colors=_PALE, labelsize=9.5)
    for side in ("top", "right", "left"):
        axes.spines[side].set_visible(False)
    axes.spines["bottom"].set_color(_GRID)
