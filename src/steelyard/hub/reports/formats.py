"""The formats of a report, by name. Each takes the whole report and gives one text that ends with a line's end."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import TYPE_CHECKING

from steelyard.hub.reports.markdown import as_markdown
from steelyard.hub.reports.page import as_html
from steelyard.hub.reports.text import as_text

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from steelyard.hub.reports.document import Report


def as_json(report: Report) -> str:
    """Return *report* with exact numbers, in ASCII, since a text may hold what steers a terminal."""
    return json.dumps(asdict(report), indent=2, sort_keys=True) + "\n"


FORMATS: Mapping[str, Callable[[Report], str]] = {
    "text": as_text,
    "markdown": as_markdown,
    "json": as_json,
    "html": as_html,
}
