"""The small file beside a SQLite database that outlives the database's own file, and so tells when it was put back."""

from __future__ import annotations

import fcntl
import json
import os
from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple
from uuid import UUID

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


class Sidecar(NamedTuple):
    """The epoch that the database was last seen in, and the count of its beats."""

    epoch_id: UUID
    beat: int


def path_of(database: Path) -> Path:
    """Return where the sidecar of the file *database* lies."""
    return database.with_name(f"{database.name}.epoch")


def read(database: Path) -> Sidecar | None:
    """Return what the sidecar says; None where there is none, or it cannot be understood; raises OSError."""
    try:
        content = json.loads(path_of(database).read_text(encoding="utf-8"))
        return Sidecar(epoch_id=UUID(content["epoch_id"]), beat=int(content["beat"]))
    except (FileNotFoundError, ValueError, KeyError, TypeError):
        return None


@contextmanager
def writing(database: Path) -> Iterator[None]:
    """Keep every other thread and process from writing the sidecar until the block ends; raises OSError."""
    descriptor = os.open(database.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def write(database: Path, sidecar: Sidecar) -> None:
    """Replace the sidecar whole, on the disk before this returns, alone in `writing`; raises OSError."""
    path = path_of(database)
    part = path.with_name(f"{path.name}.part")
    content = json.dumps({"epoch_id": str(sidecar.epoch_id), "beat": sidecar.beat}) + "\n"
    with open(part, "w", encoding="utf-8", opener=lambda name, flags: os.open(name, flags, 0o600)) as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    part.replace(path)
    flush_folder(path.parent)


def flush_folder(folder: Path) -> None:
    """Bring the names of the files in *folder* to the disk."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
