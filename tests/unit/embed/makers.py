"""Runtimes that tests can hold, count and break."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from steelyard.embed.runtimes.fake import FakeRuntime

if TYPE_CHECKING:
    from collections.abc import Sequence

    from steelyard.embed.domain.ports import Tokens, Vector

WAIT_S = 30.0


class HeldRuntime(FakeRuntime):
    """Notes every call's rows; a held call begins, says so, and waits for the test. From one call on it may be dead."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[list[Tokens]] = []
        self.began, self.may_go = threading.Semaphore(0), threading.Semaphore(0)
        self.is_held = False
        self.dies_at_call: int | None = None
        self.is_closed = False

    def embed(self, rows: Sequence[Tokens]) -> list[Vector]:
        self.calls.append(list(rows))
        self.began.release()
        if self.is_held:
            assert self.may_go.acquire(timeout=WAIT_S)
        if self.dies_at_call is not None and len(self.calls) >= self.dies_at_call:
            raise RuntimeError("the model is dead")
        return super().embed(rows)

    def close(self) -> None:
        self.is_closed = True
