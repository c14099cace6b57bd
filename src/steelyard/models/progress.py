"""How a pull tells its progress; the bar of an interactive terminal is in `commands`."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager

_LINE_BYTES = 100_000_000
_MOST_LINES = 10


class Report(Protocol):
    """What a pull needs to tell somebody."""

    def say(self, sentence: str) -> None:
        """Tell one sentence, now."""

    def track(self, label: str, *, total_bytes: int) -> AbstractContextManager[Callable[[int], object]]:
        """Show progress while the context is open; it gives a function to be told the size of each chunk.

        A negative size takes back what was told before, where a download starts again.
        """


@dataclass(frozen=True)
class LineReport:
    """Writes each sentence, and now and then a line about progress: for logs."""

    write: Callable[[str], object]

    def say(self, sentence: str) -> None:
        """Write *sentence*."""
        self.write(sentence)

    @contextmanager
    def track(self, label: str, *, total_bytes: int) -> Iterator[Callable[[int], object]]:
        """Write at most ten lines, and none before another 100 MB."""
        yield _Lines(label, total_bytes=total_bytes, write=self.write).add


class SilentReport:
    """Tells nothing."""

    def say(self, sentence: str) -> None:
        """Drop *sentence*."""

    @contextmanager
    def track(self, label: str, *, total_bytes: int) -> Iterator[Callable[[int], object]]:  # noqa: ARG002 (the Protocol)
        """Count nothing."""
        yield lambda _count: None


class _Lines:
    def __init__(self, label: str, *, total_bytes: int, write: Callable[[str], object]) -> None:
        self._label, self._total_bytes, self._write = label, total_bytes, write
        self._lines = min(max(total_bytes // _LINE_BYTES, 1), _MOST_LINES)
        self._position_bytes = self._told = 0

    def add(self, count: int) -> None:
        self._position_bytes += count
        due = self._position_bytes * self._lines // max(self._total_bytes, 1)
        if due > self._told:
            self._write(f"{self._label}: {due * 100 // self._lines} % of {readable_size(self._total_bytes)}")
        self._told = due


def readable_size(size_bytes: int) -> str:
    """Return *size_bytes* with three digits and a decimal unit, as disks are sold: ``1.12 GB``."""
    for unit, unit_bytes in (("GB", 10**9), ("MB", 10**6), ("kB", 10**3)):
        if size_bytes >= unit_bytes:
            value = size_bytes / unit_bytes
            return f"{value:,.{max(0, 3 - len(str(int(value))))}f} {unit}"
    return f"{size_bytes} bytes"
