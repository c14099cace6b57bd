"""Numbers as people read them. What is not known is a dash."""

from __future__ import annotations

UNKNOWN = "–"
_DIGITS = 3


def figure(value: float | None, *, digits: int = _DIGITS) -> str:
    """Return a metric's value."""
    return UNKNOWN if value is None else _rounded(value, digits).replace("-", "−")


def signed(value: float | None, *, digits: int = _DIGITS) -> str:
    """Return a difference with its sign; one that rounds to nothing has none."""
    text = figure(value, digits=digits)
    return f"+{text}" if value is not None and value > 0 and float(_rounded(value, digits)) else text


def interval(bounds: tuple[float, float] | None) -> str:
    """Return both bounds of a difference."""
    return UNKNOWN if bounds is None else f"[{signed(bounds[0])}, {signed(bounds[1])}]"


def p_value(value: float | None) -> str:
    """Return a probability; a tiny one is bounded, since its digits say nothing."""
    return "<0.001" if value is not None and value < 0.001 else figure(value)


def milliseconds(value: float | None) -> str:
    """Return a time, to a tenth below 100 ms."""
    return UNKNOWN if value is None else f"{value:.1f}" if value < 100 else f"{value:.0f}"


def _rounded(value: float, digits: int) -> str:
    text = f"{value:.{digits}f}"
    return text if float(text) else f"{0:.{digits}f}"
