"""The picture of an acceptance run: how far each row's probabilities moved, and how often the passes agree.

Only this module may load matplotlib, and only when it draws.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, cast

from steelyard.decide.acceptance.checks import CONTROL, MOST_CONTROL_AGREEMENT, NOISE, PARITY, SHARED, Verdict
from steelyard.decide.acceptance.errors import AcceptanceRefused

if TYPE_CHECKING:
    from pathlib import Path

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from steelyard.decide.acceptance.checks import Check
    from steelyard.decide.acceptance.outcome import Outcome

FILE_NAME = "report.png"
_INCHES = (12.5, 6.2)
_DOTS_PER_INCH = 100
_GAPS_BOX = (0.065, 0.235, 0.375, 0.485)  # Left, bottom, width and height, as fractions of the picture.
_BARS_BOX = (0.675, 0.235, 0.295, 0.485)
_MARGIN, _COLUMN = 0.02, 0.163
_SMALLEST_GAP = 1e-6  # Below it the axis is linear, so that a gap of zero has its place.
_INK, _PALE, _GRID = "#1f2933", "#5f6b78", "#e4e8ec"
_COLOURS = {PARITY: "#b4552d", NOISE: "#2f7d6b", SHARED: "#6f9bd1", CONTROL: "#8a6bb1", "accuracy": "#8d99a6"}
# In the order in which they are drawn: equal lines lie on one another, and the widest is below.
_LINES = {
    SHARED: ("direct and shared", 4.5),
    NOISE: ("direct twice (noise floor)", 2.2),
    PARITY: ("reference and direct (parity)", 2.2),
}
_LIMITS = {CONTROL: f" ({MOST_CONTROL_AGREEMENT} at most)"}
_VERDICT_COLOURS = {Verdict.PASSED: "#2f7d6b", Verdict.FAILED: "#b3261e"}


class _Bar(NamedTuple):
    """One fraction of the rows, from 0 to 1."""

    label: str
    value: float
    colour: str


def require_matplotlib() -> None:
    """Raise AcceptanceRefused where matplotlib cannot be loaded, before hours of scoring end without a picture."""
    try:
        import matplotlib.figure  # noqa: F401, PLC0415  # The extra `plots` is not always installed.
    except ImportError:
        raise AcceptanceRefused(
            "the plot needs matplotlib; in a checkout of steelyard run: pip install '.[plots]', or give --no-plot"
        ) from None
    except Exception as error:  # It reads the environment and its own file of settings, and raises what it likes.
        raise AcceptanceRefused(f"matplotlib cannot be loaded: {error}; put that right, or give --no-plot") from None


def draw(outcome: Outcome, path: Path, *, title: str) -> None:
    """Write the picture as a PNG under 200 KB; *title* is taken letter by letter, whatever it holds.

    Raises OSError. The operator's own matplotlib settings have no say, since some need programs that may be missing.
    """
    from matplotlib import style  # noqa: PLC0415  # See above.
    from matplotlib.figure import Figure  # noqa: PLC0415

    with style.context("default"):
        figure = Figure(figsize=_INCHES)
        _draw_head(figure, outcome, title)
        _draw_gaps(figure.add_axes(_GAPS_BOX), outcome)
        _draw_bars(figure.add_axes(_BARS_BOX), _bars(outcome))
        figure.savefig(path, dpi=_DOTS_PER_INCH, facecolor="white", metadata={"Software": None})


def _draw_head(figure: Figure, outcome: Outcome, title: str) -> None:
    # The font has no glyphs for every script, and a dollar sign would begin a formula.
    plain = title.encode("ascii", "replace").decode("ascii")
    figure.text(_MARGIN, 0.935, plain, size=14, weight="bold", color=_INK, parse_math=False)
    for place, check in enumerate(outcome.checks):
        left, colour = _MARGIN + _COLUMN * place, _VERDICT_COLOURS.get(check.verdict, _PALE)
        figure.text(left, 0.882, check.name, size=10, color=_INK)
        figure.text(left, 0.845, check.verdict, size=10, weight="bold", color=colour)
        figure.text(left, 0.810, _key_number(check), size=9, color=_PALE)


def _key_number(check: Check) -> str:
    """Return the number that says most about *check*, in a few characters."""
    figures = check.figures
    if "agreement" in figures:
        return f"agreement {figures['agreement']:.3f}"
    if "p50_seconds" in figures:
        return f"p50 {figures['p50_seconds']:.3g} s, {figures['decisions_per_second']:.3g}/s"
    if "input_tokens" in figures:
        counted = figures["gpu_bytes"] or figures["resident_bytes"]
        return f"peak {cast('int', counted) / 2**30:.2f} GiB {'GPU' if figures['gpu_bytes'] else 'resident'}"
    return "rows without an answer" if "unscored" in figures else ""


def _draw_gaps(axes: Axes, outcome: Outcome) -> None:
    axes.set_title("How far each row's probabilities moved", loc="left", size=11, color=_INK, pad=10)
    compared = {name: outcome.comparisons[name] for name in _LINES if name in outcome.comparisons}
    for name, comparison in compared.items():
        gaps = sorted(comparison.gaps)
        places = [100 * place / len(gaps) for place in range(len(gaps) + 1)]
        text, width = _LINES[name]
        label = f"{text}: at most {comparison.largest_gap:.2g}"
        axes.plot(places, [gaps[0], *gaps], color=_COLOURS[name], label=label, linewidth=width, drawstyle="steps-pre")
    axes.set_yscale("symlog", linthresh=_SMALLEST_GAP)
    axes.set_ylim(-_SMALLEST_GAP / 2, 1.5)
    axes.set_xlim(0, 100)
    axes.set_xlabel("% of the rows, those that moved least first", color=_PALE)
    axes.set_ylabel("largest gap in probability", color=_PALE)
    _tidy(axes, grid="y")
    if compared:
        axes.legend(loc="upper left", bbox_to_anchor=(0.0, -0.17), frameon=False, fontsize=9.5, labelcolor=_INK)


def _bars(outcome: Outcome) -> list[_Bar]:
    """Return the bars from the bottom up: accuracy below, agreement above."""
    accuracies = [
        _Bar(f"right: {name}", value, _COLOURS["accuracy"])
        for name, value in reversed([*outcome.accuracy.items()])
        if value is not None
    ]
    agreements = [
        _Bar(f"same: {name}{_LIMITS.get(name, '')}", outcome.comparisons[name].agreement, _COLOURS[name])
        for name in (CONTROL, SHARED, NOISE, PARITY)
        if name in outcome.comparisons
    ]
    return accuracies + agreements


def _draw_bars(axes: Axes, bars: list[_Bar]) -> None:
    axes.set_title("Rows with the same, or the right, top option", loc="left", size=11, color=_INK, pad=10)
    axes.barh([bar.label for bar in bars], [bar.value for bar in bars], color=[bar.colour for bar in bars], height=0.62)
    for place, bar in enumerate(bars):
        axes.text(bar.value + 0.015, place, f"{bar.value:.3f}", va="center", size=9.5, color=_INK)
        if CONTROL in bar.label:
            axes.plot([MOST_CONTROL_AGREEMENT] * 2, [place - 0.42, place + 0.42], color=_INK, linestyle=":")
    axes.set_xlim(0, 1.14)
    axes.set_xticks([0, 0.25, 0.5, 0.75, 1])
    axes.set_xlabel("fraction of the rows", color=_PALE)
    _tidy(axes, grid="x")
    axes.tick_params(axis="y", length=0, labelcolor=_INK)


def _tidy(axes: Axes, *, grid: str) -> None:
    axes.grid(axis=grid, color=_GRID, linewidth=0.8)  # type: ignore[arg-type]  # One of matplotlib's literals.
    axes.set_axisbelow(True)
    axes.tick_params(colors=_PALE, labelsize=9.5)
    for side in ("top", "right", "left"):
        axes.spines[side].set_visible(False)
    axes.spines["bottom"].set_color(_GRID)
