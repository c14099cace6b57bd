"""GGUF files for torch: dequantised to FP32 once, then kept.

Unpacking takes half a minute for half a billion parameters, so the result stays in a folder that is named by the file's
SHA-256 and the library's version. It is whole or absent: a folder gets its final name last, and each start checks the
digest of each of its files, which this module recorded: an edited chat template answers otherwise just as silently as a
damaged weight.
"""

from __future__ import annotations

import fcntl
import json
import logging
import shutil
from contextlib import contextmanager
from typing import TYPE_CHECKING

import torch
import transformers

from steelyard.decide.engines.torch_reading import read_model, read_tokenizer
from steelyard.decide.engines.torch_tokenizer import TorchTokenizer
from steelyard.hall.digests import sha256_of_file

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

logger = logging.getLogger("steelyard.decide")
_DIGESTS = "digests.json"
_ONE_SHARD = 1 << 50


def dequantised(path: Path, *, sha256: str, directory: Path) -> Path:
    """Return the folder in *directory* that holds the GGUF file at *path* in FP32, made now if it is not there.

    Raises ValueError where transformers cannot read the file, or OSError.
    """
    folder = directory / f"{sha256}-transformers-{transformers.__version__}"
    if _is_whole(folder):  # Before the lock, which a directory that is mounted read-only could not take.
        return folder
    with _one_at_a_time(directory):
        if _is_whole(folder):  # By another process, meanwhile.
            return folder
        for left_over in (folder, *directory.glob("*.partial")):  # Of a damaged disk, or of a conversion cut off.
            shutil.rmtree(left_over, ignore_errors=True)
        partial = folder.with_name(f"{folder.name}.partial")
        logger.info("Dequantising %s to FP32 into %s; this is done once", path, folder)
        try:
            _convert(path, partial)
            partial.rename(folder)
        finally:
            shutil.rmtree(partial, ignore_errors=True)
    return folder


@contextmanager
def _one_at_a_time(directory: Path) -> Iterator[None]:
    """Hold the lock of *directory*: another process that wants the same folder waits, and then finds it."""
    directory.mkdir(parents=True, exist_ok=True)
    with (directory / ".lock").open("a") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            logger.info("Waiting for another process that is dequantising a file into %s", directory)
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _is_whole(folder: Path) -> bool:
    """Tell whether *folder* holds what `_convert` left there, no file more or less and no byte changed."""
    try:
        recorded = json.loads((folder / _DIGESTS).read_text(encoding="ascii"))
        return bool(_digests_in(folder) == recorded)
    except (OSError, ValueError):
        return False


def _digests_in(folder: Path) -> dict[str, str]:
    return {path.name: sha256_of_file(path) for path in folder.iterdir() if path.name != _DIGESTS}


def _convert(path: Path, folder: Path) -> None:
    # First, for it refuses a file without a chat template.
    tokenizer = TorchTokenizer(read_tokenizer(path.parent, gguf_file=path.name)).native
    model = read_model(
        path.parent,
        gguf_file=path.name,
        dtype=torch.float32,
        quantization_config=transformers.GgufConfig(dequantize=True),
    )
    model.save_pretrained(folder, max_shard_size=_ONE_SHARD)
    tokenizer.save_pretrained(folder)
    (folder / _DIGESTS).write_text(json.dumps(_digests_in(folder)), encoding="ascii")
