"""Where weights files lie, what state each is in, and whether its bytes are the official ones.

This module reads files and never changes one. It does not know where the bytes come from.
"""

from __future__ import annotations

import errno
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING

from steelyard.hall.digests import sha256_of_file
from steelyard.models.errors import AbsentWeightsError, DiskFullError, ModelsDirError, WrongWeightsError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from steelyard.models.catalogue import Model, Weights

MODELS_DIR_VARIABLE = "SEMIF_MODELS_DIR"
_HOME_RELATIVE = Path("steelyard") / "models"


class Status(StrEnum):
    """What lies on the disk, told from names and sizes alone: only `verify` reads the bytes."""

    ABSENT = "absent"
    PARTIAL = "partial"
    PRESENT = "present"
    DAMAGED = "damaged"  # A file with the final name and another size, which no pull leaves behind.


def models_dir(environ: Mapping[str, str]) -> Path:
    """Return the directory that holds the weights files; it need not exist.

    It is SEMIF_MODELS_DIR, else ``steelyard/models`` under XDG_CACHE_HOME, else under ``~/.cache``. Empty variables
    count as unset. Raises ModelsDirError where there is no home directory to fall back on.
    """
    try:
        if chosen := environ.get(MODELS_DIR_VARIABLE):
            return Path(chosen).expanduser().absolute()
        return _cache_home(environ) / _HOME_RELATIVE
    except RuntimeError as error:  # pathlib's word for an account without a home.
        message = f"This account has no home directory to keep weights in: set {MODELS_DIR_VARIABLE} to a directory."
        raise ModelsDirError(message) from error


def _cache_home(environ: Mapping[str, str]) -> Path:
    chosen = Path(environ.get("XDG_CACHE_HOME", ""))
    # The XDG specification says that a relative path counts as unset.
    if chosen.is_absolute():
        return chosen
    return Path(environ.get("HOME") or Path.home()) / ".cache"


def path_of(weights: Weights, directory: Path) -> Path:
    """Return the final path of *weights* in *directory*; a file of this name has passed the check when it got it."""
    return directory / weights.file_name


def part_of(weights: Weights, directory: Path) -> Path:
    """Return the path of a download from the hub that has not ended or not been checked."""
    return directory / f"{weights.file_name}.part"


def pieces_of(weights: Weights, directory: Path) -> Path:
    """Return the directory of the pieces that have been taken out of carriers."""
    return directory / f"{weights.file_name}.pieces"


def joined_of(weights: Weights, directory: Path) -> Path:
    """Return the path of the joined pieces that have not been checked."""
    return directory / f"{weights.file_name}.joined"


def partials_of(weights: Weights, directory: Path) -> tuple[Path, ...]:
    """Return what an unfinished pull of *weights* has left in *directory*: files and at most one directory."""
    candidates = (part_of(weights, directory), pieces_of(weights, directory), joined_of(weights, directory))
    return tuple(path for path in candidates if path.exists())


def status_of(weights: Weights, directory: Path) -> Status:
    """Return the state of *weights* in *directory* without reading the bytes; raises OSError."""
    path = path_of(weights, directory)
    if path.is_file():
        return Status.PRESENT if path.stat().st_size == weights.size_bytes else Status.DAMAGED
    return Status.PARTIAL if partials_of(weights, directory) else Status.ABSENT


def status_of_model(model: Model, directory: Path) -> Status:
    """Return the state of all files of *model* together: present or absent only if every one is; raises OSError."""
    states = {status_of(weights, directory) for weights in model.files}
    if Status.DAMAGED in states:
        return Status.DAMAGED
    return states.pop() if len(states) == 1 else Status.PARTIAL


def verify(model: Model, directory: Path, *, on_bytes: Callable[[int], object] = lambda _count: None) -> None:
    """Read all files of *model*, telling *on_bytes* each chunk's size, and return if they are the official ones.

    Raises AbsentWeightsError, WrongWeightsError or OSError.
    """
    paths = [path_of(weights, directory) for weights in model.files]
    if not all(path.is_file() for path in paths):
        raise AbsentWeightsError(f"{model.name} is not in {directory}: run 'steelyard models pull {model.name}'.")
    for path, weights in zip(paths, model.files, strict=True):
        check(path, weights=weights, on_bytes=on_bytes)


def check(path: Path, *, weights: Weights, on_bytes: Callable[[int], object]) -> None:
    """Return if the file at *path* has the official size and hash; raises WrongWeightsError saying both values."""
    size_bytes = path.stat().st_size
    if size_bytes != weights.size_bytes:
        raise WrongWeightsError(_differs(path, expected=f"{weights.size_bytes} bytes", got=f"{size_bytes} bytes"))
    sha256 = sha256_of_file(path, on_bytes=on_bytes)
    if sha256 != weights.sha256:
        raise WrongWeightsError(_differs(path, expected=f"SHA-256 {weights.sha256}", got=f"SHA-256 {sha256}"))


def _differs(path: Path, *, expected: str, got: str) -> str:
    return f"{path} is not the official file: expected {expected}, got {got}."


@contextmanager
def disk_errors(directory: Path) -> Iterator[None]:
    """Turn an OSError into a ModelsDirError that says what to do about *directory*."""
    try:
        yield
    except OSError as error:
        if error.errno in {errno.ENOSPC, errno.EDQUOT}:
            raise DiskFullError(
                f"The disk of {directory} is full: free some space and run the same command again, which goes on "
                f"where this one stopped, or name another directory with {MODELS_DIR_VARIABLE}."
            ) from error
        reason = f"{error.strerror or error} ({error.filename or directory})"
        raise ModelsDirError(
            f"The models directory {directory} cannot be used: {reason}; check its permissions, or name another "
            f"directory with {MODELS_DIR_VARIABLE}."
        ) from error
