"""The log of a command: lines on stderr."""

from __future__ import annotations

import logging
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection


def log_to_stderr(*, only_warnings_of: Collection[str] = ()) -> None:
    """Write every record from INFO up to stderr, and of the loggers named only warnings and worse."""
    logging.basicConfig(level=logging.INFO, stream=sys.stderr, format="%(asctime)s %(levelname)s %(name)s %(message)s")
    for name in only_warnings_of:
        logging.getLogger(name).setLevel(logging.WARNING)
