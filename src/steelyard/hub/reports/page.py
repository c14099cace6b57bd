"""A report as one HTML file that needs nothing else: no script, no other file, nothing from a network.

Every text is escaped by the template engine. The page's own policy lets a browser apply this one style sheet, by its
digest, and nothing beside it.
"""

from __future__ import annotations

from base64 import b64encode
from functools import cache
from hashlib import sha256
from typing import TYPE_CHECKING, Any

from jinja2 import Environment, PackageLoader, StrictUndefined

from steelyard.hall.texts import shorten
from steelyard.hub.reports import plots
from steelyard.hub.reports.outline import Bullets, Heading, Paragraph, Plot, outcome_of, outline, title_of
from steelyard.hub.reports.tables import Table

if TYPE_CHECKING:
    from steelyard.hub.reports.document import Report
    from steelyard.hub.reports.outline import Block

_KINDS: dict[type[Any], str] = {
    Paragraph: "paragraph",
    Bullets: "bullets",
    Heading: "heading",
    Plot: "plot",
    Table: "table",
}


def as_html(report: Report) -> str:
    """Return *report* as a page."""
    environment = _environment()
    style = environment.get_template("report.css").render()
    return environment.get_template("report.html").render(
        report=report,
        title=title_of(report),
        outcome=outcome_of(report),
        sections=outline(report),
        style=style,
        style_digest=b64encode(sha256(style.encode()).digest()).decode("ascii"),
        deltas=plots.deltas(report),
        case_bars=plots.case_bars(report),
        spread=plots.spread(report),
    )


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("steelyard.hub.reports"),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_printable,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters["kind"] = _kind
    return environment


def _kind(block: Block) -> str:
    return _KINDS[type(block)]


def _printable(value: Any) -> Any:
    """Return a plain text without what steers a terminal or turns its reading direction; the template escapes it."""
    return shorten(value, limit=len(value)) if type(value) is str else value
