"""How answers look on a terminal: a list as a table, a thing as lines, or either as JSON."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click

from steelyard.hall.texts import shorten

if TYPE_CHECKING:
    from collections.abc import Sequence

    from steelyard.client import Page, Thing

_WIDEST = 64


def print_json(value: object) -> None:
    """Write *value* as JSON."""
    click.echo(json.dumps(value, indent=2))  # In ASCII, since a text may hold what steers a terminal.


def print_page(page: Page, *, columns: Sequence[str], as_json: bool) -> None:
    """Write a page; where there is more, say on stderr how to get it."""
    if as_json:
        print_json(asdict(page))
    else:
        rows = [[_cell(item.get(column)) for column in columns] for item in page.items]
        click.echo(_table([list(columns), *rows]))
    if page.has_more:
        click.echo(f"There are more: add --offset {page.offset + page.limit}", err=True)


def print_thing(thing: Thing, *, as_json: bool) -> None:
    """Write one thing."""
    if as_json:
        print_json(thing)
        return
    width = max(map(len, thing), default=0)
    for name, value in thing.items():
        click.echo(f"{name:<{width}}  {_text(value)}")


def print_issued(issued: Thing, *, as_json: bool) -> None:
    """Write a new credential: its secret alone on stdout, so that a script can keep it."""
    if as_json:
        print_json(issued)
        return
    credential = issued["credential"]
    click.echo(f"Credential {credential['public_id']} ({credential['name']}). Its secret is shown once:", err=True)
    click.echo(issued["secret"])


def _table(rows: Sequence[Sequence[str]]) -> str:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = ("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows)
    return "\n".join(lines)


def _cell(value: Any) -> str:
    return shorten(_text(value), limit=_WIDEST)


def _text(value: Any) -> str:
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.1f}" if value >= 0.1 else f"{value:.3g}"  # Milliseconds and limits: for the whole, --json.
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return shorten(text, limit=len(text))
