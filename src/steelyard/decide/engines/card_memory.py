"""The card and its memory, through torch: what refuses the start, the cap, and what is given back after a call.

The module is handed `torch` and imports nothing of it, so every rule here is tested without a card.
"""

from __future__ import annotations

import gc
from typing import Any

from steelyard.decide.domain.errors import is_out_of_memory

_NO_MEMORY = "CUDA out of memory"
GIB = 1 << 30
# Growth over what was reserved after the warm-up that is left alone: giving it back after every call costs more.
SPARE_BYTES = 512 << 20


class CardMemory:
    """One card's memory, capped for this process from now on."""

    def __init__(self, torch: Any, *, cap_gib: float | None) -> None:
        """Check the card and set the cap; raises ValueError where the card cannot serve or the cap is above it.

        Call it before anything is put on the card: what is reserved already is not undone.
        """
        self._cuda = torch.cuda
        _check_card(torch)
        self._baseline: int | None = None
        if cap_gib is not None:
            total = self._cuda.get_device_properties(0).total_memory
            if cap_gib * GIB > total:
                raise ValueError(
                    f"SEMIF_VRAM_CAP_GIB is {cap_gib:g}, but the card has {total / GIB:.2f} GiB; "
                    "set it lower, or unset it"
                )
            self._cuda.set_per_process_memory_fraction(cap_gib * GIB / total, 0)

    @property
    def peak_bytes(self) -> int:
        """The most memory that torch has reserved on the card in this process."""
        return int(self._cuda.max_memory_reserved(0))

    def synchronize(self) -> None:
        """Wait until the card has done all that it was given: only then do its errors and its seconds show."""
        self._cuda.synchronize(0)

    def check_room(self, cache: Any, *, rows: int, width: int, config: Any) -> None:
        """Do nothing: the card's allocator says itself when a batch does not fit."""

    def settle(self) -> None:
        """Take what is reserved now as the baseline of `tidy`."""
        self._baseline = self._reserved()

    def tidy(self, *, failed: bool) -> None:
        """Give unused memory back to the card: all of it after a failure, otherwise only after much growth."""
        if failed or (self._baseline is not None and self._reserved() > self._baseline + SPARE_BYTES):
            self._cuda.empty_cache()

    def close(self) -> None:
        """Give back all that is unused."""
        gc.collect()
        self._cuda.empty_cache()

    def _reserved(self) -> int:
        return int(self._cuda.memory_reserved(0))


def out_of_memory_text(error: Exception) -> str | None:
    """Return what *error* says if it means that memory ran out, None if it means something else.

    torch's own error for it may have no message, and is known by its class; cuBLAS and cuDNN raise a RuntimeError that
    is known by its message.
    """
    if is_out_of_memory(error) or type(error).__name__ == "OutOfMemoryError":
        return str(error) or _NO_MEMORY
    return None


def _check_card(torch: Any) -> None:
    if not torch.cuda.is_available():
        raise ValueError(
            f"SEMIF_DEVICE is cuda, but torch {torch.__version__} sees no CUDA device; check nvidia-smi and that "
            "torch is a CUDA build, or set SEMIF_DEVICE=cpu"
        )
    major, minor = torch.cuda.get_device_capability(0)
    built_for = torch.cuda.get_arch_list()
    if f"sm_{major}{minor}" not in built_for:
        raise ValueError(
            f"torch {torch.__version__} was not built for this card: it needs sm_{major}{minor} and has "
            f"{', '.join(built_for) or 'none'}; install a torch build that names it"
        )
