from __future__ import annotations

import gc
import weakref

import pytest
import torch
from tests.unit.decide.engines.fake_torch import GIB, FakeCuda, FakeTorch

from steelyard.decide.domain.errors import OutOfMemory
from steelyard.decide.engines.card_memory import SPARE_BYTES, CardMemory, out_of_memory_text

MIB = 1 << 20


def memory_of(cuda: FakeCuda | None = None, *, cap_gib: float | None = None) -> CardMemory:
    return CardMemory(FakeTorch(cuda or FakeCuda()), cap_gib=cap_gib)


def refusal(cuda: FakeCuda, *, cap_gib: float | None = None) -> str:
    with pytest.raises(ValueError, match=r"^(SEMIF_|torch )") as caught:
        memory_of(cuda, cap_gib=cap_gib)
    assert cuda.calls == [], "the card was touched before it was refused"
    text = str(caught.value)
    assert "\n" not in text
    return text


# What refuses the start.


def test_no_card_is_refused_with_what_to_do():
    assert refusal(FakeCuda(has_card=False)) == (
        "SEMIF_DEVICE is cuda, but torch 2.13.0 sees no CUDA device; check nvidia-smi and that torch is a CUDA build, "
        "or set SEMIF_DEVICE=cpu"
    )


def test_a_card_that_torch_was_not_built_for_is_refused_with_what_it_has():
    assert refusal(FakeCuda(capability=(7, 5))) == (
        "torch 2.13.0 was not built for this card: it needs sm_75 and has sm_80, sm_90, sm_120; install a torch build "
        "that names it"
    )


@pytest.mark.parametrize("arch_list", [[], ["compute_90"], ["sm_9"], ["sm_900"], ["sm_90a"]], ids=repr)
def test_only_the_cards_own_architecture_counts(arch_list):
    assert "it needs sm_90 and has " in refusal(FakeCuda(arch_list=arch_list))


@pytest.mark.parametrize("capability", [(8, 0), (9, 0), (12, 0)])
def test_a_card_that_torch_was_built_for_passes(capability):
    cuda = FakeCuda(capability=capability)
    memory_of(cuda)
    assert cuda.calls == []


# The cap.


@pytest.mark.parametrize(("cap_gib", "fraction"), [(6, 0.25), (0.75, 0.03125), (24, 1.0)])
def test_a_cap_is_set_as_its_fraction_of_the_card(cap_gib, fraction):
    cuda = FakeCuda()
    memory_of(cuda, cap_gib=cap_gib)
    assert cuda.calls == [("cap", fraction)]


def test_without_a_cap_none_is_set():
    cuda = FakeCuda()
    memory_of(cuda)
    assert cuda.calls == []


def test_a_cap_above_the_card_is_refused_with_the_cards_size():
    assert refusal(FakeCuda(total_bytes=24 * GIB - 1), cap_gib=24) == (
        "SEMIF_VRAM_CAP_GIB is 24, but the card has 24.00 GiB; set it lower, or unset it"
    )
    assert "but the card has 23.55 GiB" in refusal(FakeCuda(total_bytes=25_286_803_456), cap_gib=24)


def test_the_card_is_checked_before_the_cap():
    assert refusal(FakeCuda(has_card=False), cap_gib=99).startswith("SEMIF_DEVICE is cuda")


# What is given back.


@pytest.mark.parametrize(
    ("growth", "calls"),
    [(0, []), (-GIB, []), (512 * MIB, []), (512 * MIB + 1, ["empty_cache"]), (9 * GIB, ["empty_cache"])],
)
def test_growth_over_the_warm_baseline_is_given_back_beyond_512_mib(growth, calls):
    cuda = FakeCuda(reserved_bytes=2 * GIB)
    memory = memory_of(cuda)
    memory.settle()
    cuda.reserved_bytes += growth
    memory.tidy(failed=False)
    assert cuda.calls == calls


def test_before_the_baseline_is_known_only_a_failure_gives_memory_back():
    cuda = FakeCuda(reserved_bytes=20 * GIB)
    memory = memory_of(cuda)
    memory.tidy(failed=False)
    assert cuda.calls == []
    memory.tidy(failed=True)
    assert cuda.calls == ["empty_cache"]


def test_after_a_failure_all_is_given_back_however_little_it_is():
    cuda = FakeCuda(reserved_bytes=GIB)
    memory = memory_of(cuda)
    memory.settle()
    memory.tidy(failed=True)
    assert cuda.calls == ["empty_cache"]


def test_the_baseline_stays_where_it_was_settled():
    cuda = FakeCuda(reserved_bytes=GIB)
    memory = memory_of(cuda)
    memory.settle()
    for _ in range(3):  # Growth in small steps is growth all the same.
        cuda.reserved_bytes += SPARE_BYTES // 2
        memory.tidy(failed=False)
    assert cuda.calls == ["empty_cache"]


def test_closing_frees_what_is_only_held_by_itself_and_gives_all_back():
    class Knot:
        pass

    knot = Knot()
    knot.itself = knot  # type: ignore[attr-defined]
    ghost = weakref.ref(knot)

    class Watching(FakeCuda):
        def empty_cache(self) -> None:
            self.calls.append(ghost() is None)

    cuda = Watching()
    gc.disable()
    try:
        del knot
        memory_of(cuda).close()
    finally:
        gc.enable()
    assert cuda.calls == [True]


def test_it_waits_for_the_card_and_tells_the_peak():
    cuda = FakeCuda(peak_bytes=3 * GIB)
    memory = memory_of(cuda)
    memory.synchronize()
    memory.check_room(None, rows=10**9, width=10**9, config=None)
    assert (cuda.calls, memory.peak_bytes) == (["synchronize"], 3 * GIB)


# Which errors mean that memory ran out.


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (torch.OutOfMemoryError(), "CUDA out of memory"),
        (torch.OutOfMemoryError("Tried to allocate 20.00 MiB"), "Tried to allocate 20.00 MiB"),
        (torch.cuda.OutOfMemoryError("CUDA out of memory. Tried"), "CUDA out of memory. Tried"),
        (RuntimeError("CUDA error: out of memory"), "CUDA error: out of memory"),
        (RuntimeError("cuBLAS: out of memory"), "cuBLAS: out of memory"),
        (RuntimeError("cuDNN error: Out Of Memory"), "cuDNN error: Out Of Memory"),
        (RuntimeError("DefaultCPUAllocator: can't allocate memory"), "DefaultCPUAllocator: can't allocate memory"),
        (MemoryError(), "CUDA out of memory"),
        (OutOfMemory("9 rows"), "9 rows"),
        (RuntimeError("CUDA error: an illegal memory access was encountered"), None),
        (RuntimeError("CUBLAS_STATUS_EXECUTION_FAILED"), None),
        (RuntimeError(), None),
        (ValueError("out of memory"), None),
        (KeyError("out of memory"), None),
    ],
    ids=repr,
)
def test_memory_ran_out_where_the_class_or_the_message_says_so(error, text):
    assert out_of_memory_text(error) == text
