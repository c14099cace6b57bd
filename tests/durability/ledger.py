"""What the world outside the hub knows: what clients were answered, and what the embedding server was asked.

Threads only append, so a copy of a list is one moment of it.
"""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

WAIT_S = 30.0


@dataclass(frozen=True)
class Embedded:
    """An answer to a call of the gateway's, which its client has read to the end."""

    request_id: str
    texts: Sequence[str]
    status: int
    tokens: int | None
    code: str | None


@dataclass(frozen=True)
class Changed:
    """An answer to a change of the catalogue's, which its operator has read to the end."""

    request_id: str
    path: str
    status: int
    content: Any


@dataclass(frozen=True)
class Ledger:
    """Everything so far, over every life of the hub."""

    embedded: list[Embedded] = field(default_factory=list)
    changed: list[Changed] = field(default_factory=list)
    # What the hub refused for its database's sake: what became of it was not said.
    refused: list[str] = field(default_factory=list)
    asked: dict[str, Sequence[str]] = field(default_factory=dict)  # By request id: what the embedding server was asked.
    replied: set[str] = field(default_factory=set)  # The request ids that it began to answer well.
    faults: list[str] = field(default_factory=list)
    news: threading.Condition = field(default_factory=threading.Condition)

    def tell(self) -> None:
        """Wake whoever waits for answers."""
        with self.news:
            self.news.notify_all()

    def wait_until(self, is_so: Callable[[], bool], *, what: str) -> None:
        """Return once *is_so*; fails where a client found a fault, or after a while."""
        ends = time.monotonic() + WAIT_S
        with self.news:
            while not is_so():
                assert not self.faults, self.faults
                assert self.news.wait(ends - time.monotonic()), f"this never came: {what}"
