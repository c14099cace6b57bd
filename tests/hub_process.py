"""Starts `steelyard hub serve` as a process of its own."""

from __future__ import annotations

import os
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from tests.processes import Server, started

if TYPE_CHECKING:
    from collections.abc import Iterator

STEELYARD = str(Path(sys.executable).parent / "steelyard")
_PREFIX = "STEELYARD_HUB_"


def hub_environ(url: str, **settings: object) -> dict[str, str]:
    """Return this process's environment with only the named settings; `max_in_progress=1` sets that variable."""
    own = {name: value for name, value in os.environ.items() if not name.startswith(_PREFIX)}
    values = {"database": url, "bind": "127.0.0.1:0", "calls_per_second": 1_000_000, **settings}
    return own | {f"{_PREFIX}{name.upper()}": str(value) for name, value in values.items()}


@contextmanager
def hub_serving(url: str, *arguments: str, **settings: object) -> Iterator[Server]:
    """Run a hub on the database at *url* until the end of the block."""
    command = [STEELYARD, "hub", "serve", *arguments]
    with started(command, hub_environ(url, **settings)) as (process, log):
        yield Server(process, log)
