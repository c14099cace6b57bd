"""Makes single calls of a hub in processes of their own, and kills each at one of its commit points.

The program reads one order a line and answers each with a line: how many commit points the call passed, and its status
where it came to an end. It forks for each order while it has one thread, so that an order costs no start.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from steelyard.hub.db import epoch, sidecar
from steelyard.hub.db.database import Database

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from sqlalchemy import Connection


class Killer:
    """Counts commit points, each of which has a moment before and one after, and ends this process at one of them."""

    def __init__(self, moment: int | None, tell: Callable[[dict[str, Any]], None]) -> None:
        self._moment = moment
        self._tell = tell
        self.passed = 0

    def come_by(self) -> None:
        if self.passed == self._moment:
            self._tell({"moments": self.passed, "status": None})
            os.kill(os.getpid(), signal.SIGKILL)
        self.passed += 1


def watch(killer: Killer) -> None:
    """Let every commit of this process, and every sidecar that it writes, come by *killer*."""
    write, write_sidecar = Database.write, sidecar.write

    @contextmanager
    def watched(database: Database) -> Iterator[Connection]:
        with write(database) as connection:
            yield connection
            killer.come_by()
        killer.come_by()

    def watched_sidecar(*arguments: Any) -> None:
        killer.come_by()
        write_sidecar(*arguments)
        killer.come_by()

    Database.write = watched  # type: ignore[method-assign, assignment]
    epoch.sidecar.write = watched_sidecar  # type: ignore[attr-defined]


def carry_out(order: dict[str, Any], tell: Callable[[dict[str, Any]], None]) -> None:
    """Make the call in this process, and tell how it went; it may be this process's last."""
    from tests.hub_api import Asked  # noqa: PLC0415  # As everything here, only once for all orders.

    killer = Killer(order["moment"], tell)
    asked = Asked(Database(order["url"]))
    watch(killer)
    fields = {} if order["body"] is None else {"json": order["body"]}
    headers = {"Authorization": f"Bearer {order['secret']}"}
    answer = asked.ask(order["method"], f"/api/v1{order['path']}", headers=headers, **fields)
    tell({"moments": killer.passed, "status": answer.status_code})


def main() -> None:
    """Carry out orders, each in a fork, until there are no more."""
    from steelyard.hub.app import build_document  # noqa: PLC0415

    build_document()  # Before the first fork, so that no fork has to make it.
    for line in sys.stdin:
        sys.stdout.flush()
        child = os.fork()
        if not child:
            try:
                carry_out(json.loads(line), tell_line)
            finally:
                os._exit(0)
        os.waitpid(child, 0)


def tell_line(content: dict[str, Any]) -> None:
    os.write(1, json.dumps(content).encode() + b"\n")


class Calls:
    """The program, as the tests use it."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.store.killed_calls"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def make(self, order: dict[str, Any]) -> Any:
        """Make a call to its end, or until it is killed; return how it went."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(order) + "\n")
        self._process.stdin.flush()
        return json.loads(self._process.stdout.readline())

    def close(self) -> None:
        self._process.communicate(timeout=30)


if __name__ == "__main__":
    main()
