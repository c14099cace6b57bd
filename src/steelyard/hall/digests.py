"""SHA-256 of texts and files, as lowercase hexadecimal."""

from __future__ import annotations

import hashlib
import hmac
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

_CHUNK_BYTES = 1 << 20


def sha256_of_text(text: str) -> str:
    """Return the SHA-256 of *text* in UTF-8; raises UnicodeEncodeError on a lone surrogate."""
    return hashlib.sha256(text.encode("utf-8")).hexdigest()


def has_sha256(text: str, *, kept_sha256: str | None) -> bool:
    """Tell whether *text* is the secret with this hash; without one it compares all the same and says no.

    How long it takes says nothing of the hash. Raises UnicodeEncodeError on a lone surrogate.
    """
    is_equal = hmac.compare_digest(sha256_of_text(text), kept_sha256 or "0" * 64)
    return is_equal and kept_sha256 is not None


def sha256_of_file(path: Path, *, on_bytes: Callable[[int], object] = lambda _count: None) -> str:
    """Return the SHA-256 of the file at *path*, telling *on_bytes* the size of each chunk read; raises OSError."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while chunk := file.read(_CHUNK_BYTES):
            digest.update(chunk)
            on_bytes(len(chunk))
    return digest.hexdigest()
