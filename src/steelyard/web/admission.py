"""Admission: how many requests may be in progress. A place is taken before a body is read."""

from __future__ import annotations

from typing import TYPE_CHECKING, Self

from steelyard.web.errors import Busy

if TYPE_CHECKING:
    from types import TracebackType


class Admission:
    """A number of places. It is used from the event loop only, so it needs no lock."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.in_progress = 0
        self.is_draining = False

    def enter(self) -> Permit:
        """Take a place; raises Busy where none is free or the server is going down."""
        if self.is_draining:
            raise Busy("The server is going down; send this request to another one")
        if self.in_progress >= self.limit:
            raise Busy(f"{self.limit} requests are already in progress; try again later")
        self.in_progress += 1
        return Permit(self)


class Permit:
    """One place, free again at the end of the `with` block unless it is kept for work that goes on."""

    def __init__(self, admission: Admission) -> None:
        self._admission = admission
        self._is_kept = False

    def keep(self) -> None:
        """Hold the place beyond the `with` block, until `release`."""
        self._is_kept = True

    def release(self) -> None:
        """Free a kept place; call it once."""
        self._admission.in_progress -= 1

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if not self._is_kept:
            self.release()
