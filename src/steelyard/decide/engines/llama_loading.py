"""Loading GGUF files with llama.cpp, or refusing them in one sentence."""

from __future__ import annotations

import collections
import functools
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from steelyard.decide.engines import llama_abi as abi

if TYPE_CHECKING:
    import ctypes as c
    from pathlib import Path

T = TypeVar("T")
GPU_DEVICE = 1
_LOG_ERROR = 4


@dataclass(frozen=True)
class LlamaSource:
    """The weights to load and how: *sha256* is the expected digest of a pulled file, None for an operator's own.

    *threads* is how many cores to use, None for all that this process may use.
    """

    path: Path
    name: str
    device: str
    max_tokens: int
    sha256: str | None = None
    revision: str | None = None
    threads: int | None = None


@functools.cache
def library() -> tuple[c.CDLL, collections.deque[str]]:
    """Return the library, loaded once, and the last errors that it logged. Its other lines are dropped."""
    loaded = abi.load_library()
    errors: collections.deque[str] = collections.deque(maxlen=4)

    def keep_errors(level: int, text: bytes, _user_data: object) -> None:
        if level == _LOG_ERROR:
            errors.append(text.decode("utf-8", errors="replace").strip())

    loaded.llama_log_set(_keep_alive(abi.LOG_CALLBACK(keep_errors)), None)
    loaded.llama_backend_init()
    return loaded, errors


_KEPT: list[object] = []


def _keep_alive(callback: T) -> T:
    """Return *callback*, which now lives as long as the process: C code keeps no reference to it."""
    _KEPT.append(callback)
    return callback


def load_model(library: c.CDLL, source: LlamaSource, errors: collections.deque[str]) -> int:
    """Return llama.cpp's handle on the loaded model; raises ValueError where it cannot be loaded."""
    if source.device == "cuda" and not library.ggml_backend_dev_by_type(GPU_DEVICE):
        raise ValueError(
            "SEMIF_DEVICE is cuda, but the installed xllamacpp sees no GPU; "
            "set SEMIF_DEVICE=cpu, or install xllamacpp's CUDA wheel on a machine with a card"
        )
    params = library.llama_model_default_params()
    params.n_gpu_layers = -1 if source.device == "cuda" else 0
    errors.clear()
    model = library.llama_model_load_from_file(os.fsencode(source.path), params)
    if model is None:
        raise ValueError(f"SEMIF_MODEL: llama.cpp cannot load {source.path}{cause(errors)}")
    if library.llama_model_has_encoder(model):
        library.llama_model_free(model)
        raise ValueError(f"SEMIF_MODEL: {source.path} is an encoder model; decisions need a causal chat model")
    return int(model)


def device_name(library: c.CDLL, device: str) -> str:
    """Return the device as results report it."""
    if device != "cuda":
        return device
    description = library.ggml_backend_dev_description(library.ggml_backend_dev_by_type(GPU_DEVICE))
    return f"cuda ({description.decode('utf-8', errors='replace')})"


def cause(errors: collections.deque[str]) -> str:
    """Return llama.cpp's own first error since the last load began, in brackets; nothing where it gave none."""
    return f" ({errors[0]})" if errors else ""
