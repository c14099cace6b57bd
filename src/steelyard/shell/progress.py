"""Progress bars on stderr."""

from __future__ import annotations

import logging
import sys
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from click._termui_impl import ProgressBar

logger = logging.getLogger("steelyard.shell")


def progress_bar(label: str, *, length: int, shows_count: bool = True) -> ProgressBar[int]:
    """Return a bar, to be opened with `with`, whose last words are what runs now, where `advance` tells it."""
    return click.progressbar(
        length=length,
        label=label,
        file=sys.stderr,
        show_pos=shows_count,
        item_show_func=lambda item: item and str(item),
    )


def advance(bar: ProgressBar[int], what: str, units: int) -> None:
    """Move *bar* on by *units*, maybe 0, of the work called *what*."""
    is_new = str(bar.current_item) != what
    bar.update(units, what)  # type: ignore[arg-type]  # The item is only shown.
    bar.render_progress()  # Work that just began has done nothing yet, and is shown all the same.
    if is_new and not sys.stderr.isatty():  # A log shows no bar, but each piece of work as it begins.
        logger.info("Now: %s", what)
