"""A report as Markdown, in which nobody's text is markup."""

from __future__ import annotations

import html
import re
from typing import TYPE_CHECKING

from steelyard.hall.texts import shorten
from steelyard.hub.reports.outline import Bullets, Heading, Paragraph, outline, title_of
from steelyard.hub.reports.tables import Table

if TYPE_CHECKING:
    from collections.abc import Iterator

    from steelyard.hub.reports.document import Report
    from steelyard.hub.reports.outline import Block

# What Markdown takes for code, emphasis, a link, a heading, a table's border, a formula or an address.
_MARKS = re.compile(r"[\\`*\[\]{}|~$#]|(?<![a-z0-9])_|_(?![a-z0-9])|:(?=//)|(?<=www)\.", re.IGNORECASE | re.ASCII)
# What it takes for a list or a rule where a line begins.
_BEGINNING = re.compile(r"^([0-9]{0,9})([-+=.)]+)(?=\s|$)")


def as_markdown(report: Report) -> str:
    """Return *report* as a page of Markdown with GitHub's tables."""
    parts = [f"# {_text(title_of(report))}"]
    for section in outline(report):
        parts += [f"## {section.title}", *(part for block in section.blocks for part in _parts(block))]
    return "\n\n".join(parts) + "\n"


def _parts(block: Block) -> Iterator[str]:
    if isinstance(block, Table):
        yield _table(block)
    elif isinstance(block, Heading):
        yield f"### {_line(block.text)}"
    elif isinstance(block, Bullets):
        yield "\n".join(f"- {_line(item)}" for item in block.items)
    elif isinstance(block, Paragraph):
        yield _line(block.text)


def _table(table: Table) -> str:
    marks = [("---:" if column.is_number else "---") for column in table.columns]
    rows = [[_text(column.heading) for column in table.columns], marks, *([*map(_text, row)] for row in table.rows)]
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def _line(text: str) -> str:
    """Return *text* for a line of its own."""
    return _BEGINNING.sub(r"\1\\\2", _text(text).lstrip())


def _text(text: str) -> str:
    """Return *text* as the page shows it, letter for letter."""
    return _MARKS.sub(r"\\\g<0>", html.escape(shorten(text, limit=len(text)), quote=False))
