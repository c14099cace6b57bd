"""How answers look on a terminal: a list as a table, a thing as lines, or either as JSON."""

from __future__ import annotations

import json
import re
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click

from steelyard.hall.texts import shorten

if TYPE_CHECKING:
    from collections.abc import Sequence

    from steelyard.client import Page, Thing

_WIDEST = 64
_TABLE_WIDTH = 100
_NARROWEST = 12
_GAP = "  "
# What people copy out of a table, or look up; it is never cut to make a table narrower.
_WHOLE = frozenset({
    "id", "request_id", "case_id", "subject_id", "public_id", "slug", "capability", "error_code", "at", "started_at",
    "created_at", "revoked_at",
})  # fmt: skip
# Headings of counts and such, which are wider than what stands below them.
_HEADINGS = {
    "input_count": "inputs", "case_count": "cases", "latency_ms": "ms", "error_code": "error",
    "evaluation_summary.eligibility": "eligibility", "evaluation_summary.critical_regression_count": "regressions",
}  # fmt: skip
_FRACTION = re.compile(r"\.[0-9]+(?=Z$|[+-][0-9:]+$)")


def print_json(value: object) -> None:
    """Write *value* as JSON."""
    click.echo(json.dumps(value, indent=2))  # In ASCII, since a text may hold what steers a terminal.


def print_page(page: Page, *, columns: Sequence[str], as_json: bool) -> None:
    """Write a page; where there is more, say on stderr how to get it.

    A table is read: its times are to the second and its milliseconds to a tenth. JSON is exact.
    """
    if as_json:
        print_json(asdict(page))
    else:
        rows = [[_cell(column, value_at(item, column)) for column in columns] for item in page.items]
        click.echo(_table(columns, rows))
    if page.has_more:
        click.echo(f"There are more: add --offset {page.offset + page.limit}", err=True)


def print_thing(thing: Thing, *, as_json: bool, lines: Sequence[str] = ()) -> None:
    """Write one thing: all of it, or as text only *lines*, where the rest would fill a screen."""
    if as_json:
        print_json(thing)
        return
    names = lines or tuple(thing)
    width = max(map(len, names), default=0)
    for name in names:
        click.echo(f"{name:<{width}}  {_text(value_at(thing, name) if lines else thing[name])}")


def value_at(thing: Thing, path: str) -> Any:
    """Return what stands at *path*, whose dots lead into things inside; None where nothing does."""
    value: Any = thing
    for name in path.split("."):
        value = value.get(name) if isinstance(value, dict) else None
    return value


def print_issued(issued: Thing, *, as_json: bool) -> None:
    """Write a new credential: its secret alone on stdout, so that a script can keep it."""
    if as_json:
        print_json(issued)
        return
    credential = issued["credential"]
    click.echo(f"Credential {credential['public_id']} ({credential['name']}). Its secret is shown once:", err=True)
    click.echo(issued["secret"])


def _table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    headings = [_HEADINGS.get(column, column) for column in columns]
    widths = [max(map(len, column)) for column in zip(headings, *rows, strict=True)]
    _narrow(widths, least=[_least(*column) for column in zip(columns, headings, widths, strict=True)])
    lines = (
        _GAP.join(shorten(cell, limit=width).ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in [headings, *rows]
    )
    return "\n".join(lines)


def _least(column: str, heading: str, width: int) -> int:
    """Return how narrow a column of this width may become."""
    return width if column in _WHOLE else min(width, max(_NARROWEST, len(heading)))


def _narrow(widths: list[int], *, least: list[int]) -> None:
    """Make the widest columns narrower until the table fits, as far as it can."""
    while sum(widths) + len(_GAP) * (len(widths) - 1) > _TABLE_WIDTH:
        room = [width - floor for width, floor in zip(widths, least, strict=True)]
        if not any(room):
            return
        widths[max((width, place) for place, width in enumerate(widths) if room[place])[1]] -= 1


def _cell(column: str, value: Any) -> str:
    if column.endswith("_ms") and isinstance(value, int | float):
        return f"{value:.1f}"
    text = shorten(_text(value), limit=_WIDEST)
    return _FRACTION.sub("", text) if column == "at" or column.endswith("_at") else text


def _text(value: Any) -> str:
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return shorten(text, limit=len(text))
