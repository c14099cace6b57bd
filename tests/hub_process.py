"""A hub as a process of its own, and commands that ask it."""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from click.testing import CliRunner
from tests.processes import WAIT_S, Server, started

from steelyard.cli import main

if TYPE_CHECKING:
    from collections.abc import Iterator

    from click.testing import Result

STEELYARD = str(Path(sys.executable).parent / "steelyard")


@dataclass(frozen=True)
class RunningHub:
    """Where a hub listens, and its first operator's secret."""

    url: str
    secret: str

    def run(self, *arguments: str, code: int = 0, text: str | None = None, **environ: str | None) -> Result:
        """Run `steelyard hub …` in this process against it; fails on another exit code."""
        asking = {"STEELYARD_URL": self.url, "STEELYARD_CREDENTIAL": self.secret, **environ}
        result = CliRunner().invoke(main, ["hub", *arguments], env=asking, input=text)
        assert result.exit_code == code, result.output
        return result


def hub_environ(url: str) -> dict[str, str]:
    """Return this process's environment for a hub on the database at *url*."""
    own = {name: value for name, value in os.environ.items() if not name.startswith("STEELYARD_")}
    return own | {
        "STEELYARD_HUB_DATABASE": url,
        "STEELYARD_HUB_BIND": "127.0.0.1:0",
        "STEELYARD_HUB_CALLS_PER_SECOND": "1000000",
    }


@contextmanager
def hubs_serving(url: str, *arguments: str, count: int = 1) -> Iterator[list[Server]]:
    """Start hubs on one database all at once, and give them when the last one serves."""
    command = [STEELYARD, "hub", "serve", *arguments]
    with ExitStack() as stack:
        processes = [stack.enter_context(started(command, hub_environ(url))) for _ in range(count)]
        yield [Server(process, log) for process, log in processes]


@contextmanager
def running_hub(folder: Path) -> Iterator[RunningHub]:
    """Run a hub over a new SQLite database in *folder*."""
    environ = hub_environ(f"sqlite:///{folder / 'hub.db'}")
    made = subprocess.run(
        [STEELYARD, "hub", "init"], env=environ, capture_output=True, text=True, check=True, timeout=WAIT_S
    )
    with started([STEELYARD, "hub", "serve"], environ) as (_process, log):
        url = log.wait_for(r"(http://127\.0\.0\.1:\d+)").group(1)
        yield RunningHub(url=url, secret=made.stdout.strip())
