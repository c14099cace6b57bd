"""The hub library's local cache, laid out as it lays it out."""

from __future__ import annotations

import os
import shutil
from typing import TYPE_CHECKING

from steelyard.hall.digests import sha256_of_file

if TYPE_CHECKING:
    from pathlib import Path


def put_into_cache(cache: Path, folder: Path, *, name: str, commit: str) -> Path:
    """Put *folder* into *cache* as the model *name* at *commit*, and return the snapshot: links to blobs."""
    base = cache / f"models--{name.replace('/', '--')}"
    snapshot = base / "snapshots" / commit
    for part in (snapshot, base / "blobs", base / "refs"):
        part.mkdir(parents=True, exist_ok=True)
    (base / "refs" / "main").write_text(commit)
    for file in folder.iterdir():
        blob = base / "blobs" / sha256_of_file(file)
        shutil.copy(file, blob)
        (snapshot / file.name).symlink_to(os.path.relpath(blob, snapshot))
    return snapshot
