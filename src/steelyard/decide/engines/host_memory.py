"""The machine's own memory, for models on a CPU.

Its allocator does not say no: the kernel lets a process take what it asks for and kills it when it is used. So the
engine asks first whether a batch fits and raises OutOfMemory itself, and the batch is halved as it is on a card.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import psutil

from steelyard.decide.domain.errors import OutOfMemory

# Share of the free memory that one batch may take; the rest is for what the estimate leaves out.
_SHARE = 0.8
_CGROUP = Path("/sys/fs/cgroup")
_OWN_CGROUP = Path("/proc/self/cgroup")
_FP32_BYTES = 4
_MIB = 1 << 20


class HostMemory:
    """The machine's memory: there is no cap on it, and freed memory goes back by itself."""

    peak_bytes = None

    def check_room(self, cache: Any, *, rows: int, width: int, config: Any) -> None:
        """Raise OutOfMemory where *rows* branches of *cache*, each with *width* more tokens, would not fit."""
        needed, free = needed_bytes(cache, rows=rows, width=width, config=config), free_bytes()
        if needed > free * _SHARE:
            raise OutOfMemory(
                f"{rows} rows need about {needed // _MIB} MiB of memory together, and {free // _MIB} MiB are free"
            )

    def synchronize(self) -> None:
        """Do nothing: every call has ended when it returns."""

    def settle(self) -> None:
        """Do nothing: there is no baseline."""

    def tidy(self, *, failed: bool) -> None:
        """Do nothing."""

    def close(self) -> None:
        """Do nothing."""


def needed_bytes(cache: Any, *, rows: int, width: int, config: Any) -> int:
    """Return about how many bytes the branches, the widest layer's activations and the logits take."""
    held = sum(tensor.nbytes for tensor in _tensors_of(cache))
    length = _tokens_in(cache)
    text = config.get_text_config()
    # Of a layer, the hidden states with their residual and projections, and the three parts of a gated MLP.
    activations = _FP32_BYTES * (8 * text.hidden_size + 3 * getattr(text, "intermediate_size", 4 * text.hidden_size))
    # Attention repeats one layer's keys and values for every head that shares them.
    heads = _FP32_BYTES * 2 * _attention_width(text)
    each = held + width * ((held / length if length else 0) + activations) + (length + width) * heads
    return int(held + rows * (each + _FP32_BYTES * text.vocab_size))


def _attention_width(text: Any) -> int:
    """Return the width of all heads together, 0 for a model of recurrent layers alone."""
    count = getattr(text, "num_attention_heads", 0)
    return int(count * (getattr(text, "head_dim", None) or text.hidden_size // count)) if count else 0


def _tokens_in(cache: Any) -> int:
    """Return how many tokens *cache* has grown with; 0 where all its states are of a fixed size."""
    try:
        return int(cache.get_seq_length())
    except ValueError:  # A cache without any attention layer does not count its tokens.
        return 0


def free_bytes() -> int:
    """Return how much memory this process can still take: the machine's, or less where a container has a limit."""
    return int(min(psutil.virtual_memory().available, _container_room()))


def _container_room() -> float:
    """Return the room under the tightest limit of this process's control group and of those around it."""
    return min(_room_in(group) for group in _groups())


def _groups() -> list[Path]:
    """Return the folders of this process's control groups, the innermost first.

    In a container the innermost is often the only one to be seen; under systemd a service's limit is some levels down.
    """
    try:
        lines = _OWN_CGROUP.read_text("ascii", errors="replace").splitlines()
    except OSError:
        lines = []
    own = next((line.removeprefix("0::/") for line in lines if line.startswith("0::/")), "")
    return [_CGROUP / own, *(_CGROUP / parent for parent in Path(own).parents)]


def _room_in(group: Path) -> float:
    """Return the room under the limit of *group*; cached files count as room, for the kernel drops them first."""
    try:
        limit, used, stat = (
            (group / name).read_text("ascii").strip() for name in ("memory.max", "memory.current", "memory.stat")
        )
    except OSError:  # No control group of version 2, so no limit that could be read here.
        return math.inf
    cached = dict(line.split() for line in stat.splitlines())["inactive_file"]
    return math.inf if limit == "max" else int(limit) - int(used) + int(cached)


def _tensors_of(cache: Any) -> list[Any]:
    """Return the tensors in the layers of *cache*: keys and values, or the states of a recurrent layer."""
    values = [value for layer in cache.layers for value in vars(layer).values()]
    parts = [part for value in values for part in (value.values() if isinstance(value, dict) else [value])]
    return [part for part in parts if hasattr(part, "nbytes")]
