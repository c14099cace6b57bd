"""A hub as a process of its own, and commands that ask it."""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import httpx2
from click.testing import CliRunner
from tests.hub_api import Caller
from tests.processes import WAIT_S, Server, started

from steelyard.cli import main

if TYPE_CHECKING:
    from collections.abc import Iterator

    from click.testing import Result
    from tests.processes import Log

STEELYARD = str(Path(sys.executable).parent / "steelyard")


@dataclass(frozen=True)
class RunningHub:
    """Where a hub listens, and its first operator's secret."""

    url: str
    secret: str
    log: Log

    def asks(self) -> Caller:
        """Return the first operator; whoever calls closes its client."""
        return Caller(httpx2.Client(base_url=self.url, trust_env=False, timeout=WAIT_S), self.secret)

    def run(self, *arguments: str, code: int = 0, text: str | None = None, **environ: str | None) -> Result:
        """Run `steelyard hub …` in this process against it; fails on another exit code."""
        asking = {"STEELYARD_URL": self.url, "STEELYARD_CREDENTIAL": self.secret, **environ}
        result = CliRunner().invoke(main, ["hub", *arguments], env=asking, input=text)
        assert result.exit_code == code, result.output
        return result


def hub_environ(database: str, **settings: object) -> dict[str, str]:
    """Return the environment of a hub over *database*; `calls_per_second=1` is STEELYARD_HUB_CALLS_PER_SECOND=1."""
    own = {name: value for name, value in os.environ.items() if not name.startswith("STEELYARD_")}
    values = {
        "database": database, "bind": "127.0.0.1:0", "calls_per_second": 100_000, "failures_per_minute": 1e6, **settings
    }  # fmt: skip
    return own | {f"STEELYARD_HUB_{name.upper()}": str(value) for name, value in values.items()}


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
    with hub_over(f"sqlite:///{folder / 'hub.db'}") as hub:
        yield hub


@contextmanager
def hub_over(database: str, **settings: object) -> Iterator[RunningHub]:
    """Run a hub over *database*, which is made where it is missing; it must have ended well when the block ends."""
    environ = hub_environ(database, **settings)
    made = subprocess.run(
        [STEELYARD, "hub", "init"], env=environ, capture_output=True, text=True, check=True, timeout=WAIT_S
    )
    with started([STEELYARD, "hub", "serve"], environ) as (process, log):
        url = log.wait_for(r"(http://127\.0\.0\.1:\d+)").group(1)
        yield RunningHub(url=url, secret=made.stdout.strip(), log=log)
        process.terminate()
        assert process.wait(WAIT_S) == 0, log.text
