"""GGUF files before an engine reads them: are they the bytes that their name promises?"""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

from steelyard.hall.digests import sha256_of_file

if TYPE_CHECKING:
    from pathlib import Path


def checked_sha256(path: Path, *, name: str, expected: str | None) -> str:
    """Return the SHA-256 of the file at *path*; raises ValueError where it cannot be read or is not the *expected* one.

    A pulled file, called *name*, has an expected digest; an operator's own file has None.
    """
    try:
        sha256 = sha256_of_file(path)
    except OSError as error:
        raise ValueError(f"SEMIF_MODEL: {path} cannot be read: {error.strerror}") from None
    if expected not in (None, sha256):
        raise ValueError(
            f"SEMIF_MODEL: {path} is not {name}: its SHA-256 is {sha256}, not {expected}; "
            f"run: steelyard models pull {name} --models-dir {shlex.quote(str(path.parent))}"
        )
    return sha256
