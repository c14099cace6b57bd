"""A stand-in for torch's view of one card, which notes in order what it is asked to do."""

from __future__ import annotations

from dataclasses import dataclass, field
from types import SimpleNamespace

GIB = 1 << 30


@dataclass
class FakeCuda:
    """`torch.cuda`: a card with settable facts."""

    calls: list[object] = field(default_factory=list)
    has_card: bool = True
    total_bytes: int = 24 * GIB
    capability: tuple[int, int] = (9, 0)
    arch_list: list[str] = field(default_factory=lambda: ["sm_80", "sm_90", "sm_120"])
    reserved_bytes: int = 0
    peak_bytes: int = 0

    def is_available(self) -> bool:
        return self.has_card

    def get_device_capability(self, device: int) -> tuple[int, int]:
        assert device == 0
        return self.capability

    def get_arch_list(self) -> list[str]:
        return self.arch_list

    def get_device_properties(self, device: int) -> SimpleNamespace:
        assert device == 0
        return SimpleNamespace(total_memory=self.total_bytes)

    def set_per_process_memory_fraction(self, fraction: float, device: int) -> None:
        assert device == 0
        self.calls.append(("cap", fraction))

    def memory_reserved(self, device: int) -> int:
        assert device == 0
        return self.reserved_bytes

    def max_memory_reserved(self, device: int) -> int:
        assert device == 0
        return self.peak_bytes

    def synchronize(self, device: int) -> None:
        assert device == 0
        self.calls.append("synchronize")

    def empty_cache(self) -> None:
        self.calls.append("empty_cache")


@dataclass
class FakeTorch:
    """`torch`, as far as loading and the card's memory are concerned."""

    cuda: FakeCuda = field(default_factory=FakeCuda)
    bfloat16: str = "bf16"
    float32: str = "fp32"
    threads: int | None = None
    __version__: str = "2.13.0"

    def set_num_threads(self, count: int) -> None:
        self.threads = count
