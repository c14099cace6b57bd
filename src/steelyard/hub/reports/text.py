"""A report for a terminal."""

from __future__ import annotations

import textwrap
from itertools import pairwise
from typing import TYPE_CHECKING

from steelyard.hall.texts import shorten
from steelyard.hub.reports.outline import Bullets, Heading, Paragraph, outline, title_of
from steelyard.hub.reports.tables import Table

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from steelyard.hub.reports.document import Report
    from steelyard.hub.reports.outline import Block

_WIDTH = 100
_TABLE_WIDTH = 120  # Wide enough for two ids side by side.
_GAP = "  "


def as_text(report: Report) -> str:
    """Return *report* in lines of at most 100 characters, its tables of at most 120."""
    title = _wrapped(title_of(report))
    lines = [*title, "=" * max(map(len, title))]
    for section in outline(report):
        lines += ["", section.title, "-" * len(section.title)]
        for block in section.blocks:
            lines += _lines(block)
    kept = (line for before, line in pairwise(["", *lines]) if line or before)  # One empty line at a time.
    return "".join(f"{shorten(line, limit=len(line))}\n" for line in kept)


def _lines(block: Block) -> list[str]:
    if isinstance(block, Table):
        return ["", *_table(block), ""]
    if isinstance(block, Heading):
        return ["", *_wrapped(block.text)]
    if isinstance(block, Bullets):
        return [line for item in block.items for line in _wrapped(item, first="- ", rest="  ")]
    return _wrapped(block.text) if isinstance(block, Paragraph) else []


def _wrapped(text: str, *, first: str = "", rest: str = "") -> list[str]:
    return textwrap.wrap(text, _WIDTH, initial_indent=first, subsequent_indent=rest, break_on_hyphens=False)


def _table(table: Table) -> Iterator[str]:
    rows = [tuple(column.heading for column in table.columns), *table.rows]
    widths = _narrowed([max(map(len, cells)) for cells in zip(*rows, strict=True)])
    numbers = [column.is_number for column in table.columns]
    for row in rows:
        yield _GAP.join(_placed(*cell) for cell in zip(row, widths, numbers, strict=True)).rstrip()


def _placed(cell: str, width: int, is_number: bool) -> str:
    cut = shorten(cell, limit=width)
    return cut.rjust(width) if is_number else cut.ljust(width)


def _narrowed(widths: Sequence[int]) -> list[int]:
    """Return widths that fit into a line: the widest columns give way."""
    left = list(widths)
    while sum(left) + len(_GAP) * (len(left) - 1) > _TABLE_WIDTH:
        left[left.index(max(left))] -= 1
    return left
