"""Out of memory and other failures on a real model: what the failed call held is free before memory is given back.

The model is a tiny one on the CPU; its memory is that of a card, over a stand-in that notes what it is asked to do.
"""

from __future__ import annotations

import gc
import threading
import weakref
from typing import TYPE_CHECKING, Any

import pytest
import torch
from tests.unit.decide.engines.fake_torch import GIB, FakeCuda, FakeTorch

from steelyard.decide.domain.direct import score_direct
from steelyard.decide.domain.errors import OutOfMemory, ScoringFailed
from steelyard.decide.domain.rows import Option, Row
from steelyard.decide.domain.shared import score_shared
from steelyard.decide.engines import torch_loading
from steelyard.decide.engines.card_memory import CardMemory
from steelyard.decide.model_thread import ModelThread
from steelyard.decide.settings import load_settings
from steelyard.decide.startup import start_engine, warm_up

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from steelyard.decide.domain.ports import Engine
    from steelyard.decide.engines.torch_engine import TorchEngine

WAIT_S = 30
LIMIT = 4096
CHOICES = (Option(id="y", description="Yes, it was"), Option(id="n", description="No, it was not"))
ROWS = [
    Row(id=f"r{i}", state="The gate was painted.", question=f"Was gate number {i} painted?", options=CHOICES)
    for i in range(8)
]


class Card(FakeCuda):
    """A card that notes, whenever memory is given back or asked for, whether the failed calls' tensors are gone."""

    def __init__(self) -> None:
        super().__init__()
        self.held: list[weakref.ref[Any]] = []

    def is_free(self) -> bool:
        return all(reference() is None for reference in self.held)

    def empty_cache(self) -> None:
        self.calls.append(("empty_cache", self.is_free()))


class Memory(CardMemory):
    """The card's memory, which also notes every batch of suffixes before it is made."""

    def __init__(self, card: Card) -> None:
        super().__init__(FakeTorch(card), cap_gib=None)
        self.card = card

    def synchronize(self) -> None:
        """Not noted: it is called all the time."""

    def check_room(self, cache: Any, *, rows: int, width: int, config: Any) -> None:
        self.card.calls.append((f"{rows} rows", self.card.is_free()))


class Knot:
    """Holds something in a reference cycle, as modules and frames do."""

    def __init__(self, held: object) -> None:
        self.itself, self.held = self, held


class Fault:
    """Fails in the middle of the model where *fails* says so, with tensors of its own and the model's in its frames."""

    def __init__(
        self, card: Card, error: Callable[[], Exception], fails: Callable[[int], bool], *, knots: bool
    ) -> None:
        self.calls = 0
        self._card, self._error, self._fails, self._knots = card, error, fails, knots

    def __call__(self, _layer: object, arguments: tuple[torch.Tensor, ...], named: dict[str, Any]) -> None:
        self.calls += 1
        hidden = arguments[0]
        if not self._fails(len(hidden)):
            return
        scratch = torch.zeros(1000)
        knot = Knot(scratch) if self._knots else None
        caches = [value for name, value in named.items() if name in ("cache", "past_key_values") and value is not None]
        self._card.held += [weakref.ref(thing) for thing in (hidden, scratch, *caches)]
        raise self._error() from OSError("inner", knot)


@pytest.fixture
def card() -> Card:
    return Card()


@pytest.fixture
def engine(monkeypatch, tiny_folder, card) -> Iterator[TorchEngine]:
    monkeypatch.setattr(torch_loading, "HostMemory", lambda: Memory(card))
    environ = {"SEMIF_MODEL": str(tiny_folder("tiny-qwen2")), "SEMIF_DEVICE": "cpu", "SEMIF_THREADS": "1"}
    started: Any = start_engine(load_settings(environ, needs_token=False), environ={"HOME": "/nowhere"})
    card.calls.clear()
    yield started
    started.close()


@pytest.fixture
def break_with(engine, card) -> Iterator[Callable[..., Fault]]:
    hooks = []

    def break_model(error, *, fails: Callable[[int], bool] = lambda _rows: True, knots: bool = True) -> Fault:
        fault = Fault(card, error, fails, knots=knots)
        hooks.append(engine._model.model.layers[1].register_forward_pre_hook(fault, with_kwargs=True))
        return fault

    yield break_model
    for hook in hooks:
        hook.remove()


@pytest.fixture
def poisoned() -> threading.Event:
    return threading.Event()


@pytest.fixture
def thread(engine, poisoned) -> Iterator[ModelThread]:
    own = ModelThread(engine, warm_up=warm_up, on_poisoned=poisoned.set)
    yield own
    own.close()


def direct(engine: Engine) -> list[float]:
    return score_direct(ROWS[0], engine=engine, max_tokens=LIMIT)["option_logits"]  # type: ignore[return-value]


def shared(engine: Engine) -> list[list[float]]:
    results, _timing = score_shared(ROWS, engine=engine, max_tokens=LIMIT)
    return [result["option_logits"] for result in results]  # type: ignore[misc]


def failure(thread: ModelThread, job: Callable[[Engine], object]) -> BaseException:
    error = thread.submit(job).exception(WAIT_S)
    assert error is not None
    assert (error.__cause__, error.__context__) == (None, None), "a chained error keeps the failed call's tensors"
    return error


def once() -> Callable[[int], bool]:
    left = [True]
    return lambda _rows: bool(left and left.pop())


OUT_OF_MEMORY = {
    "without a message": (torch.OutOfMemoryError, "CUDA out of memory"),
    "torch's own": (lambda: torch.OutOfMemoryError("CUDA out of memory. Tried"), "CUDA out of memory. Tried"),
    "by its message": (lambda: RuntimeError("CUDA error: out of memory"), "CUDA error: out of memory"),
    "Python's": (MemoryError, "CUDA out of memory"),
}


@pytest.mark.parametrize("kind", OUT_OF_MEMORY)
@pytest.mark.parametrize("job", [direct, shared])
def test_what_a_call_that_ran_out_of_memory_held_is_free_before_the_card_gives_memory_back(
    thread, break_with, card, poisoned, job, kind
):
    error, text = OUT_OF_MEMORY[kind]
    fault = break_with(error)
    raised = failure(thread, job)
    assert (type(raised), str(raised)) == (OutOfMemory, text)
    assert card.held, "the fault never happened"
    assert card.calls == [("empty_cache", True)]
    assert fault.calls == 1, "an out-of-memory poisons nothing, so the warm-up row need not be scored again"
    assert not poisoned.is_set()


def test_the_engine_itself_raises_out_of_memory_with_no_link_to_its_cause(engine, break_with, card):
    break_with(torch.OutOfMemoryError, knots=False)
    gc.disable()
    try:
        with pytest.raises(OutOfMemory) as caught:
            engine.forward([1, 2], [3])
        assert (caught.value.__cause__, caught.value.__context__) == (None, None)
        assert card.is_free(), "the error that is raised keeps the failed call's tensors"
    finally:
        gc.enable()


def test_after_running_out_of_memory_the_engine_answers_as_before(engine, thread, break_with):
    fresh = direct(engine)
    break_with(torch.OutOfMemoryError, fails=once())
    failure(thread, direct)
    assert thread.submit(direct).result(WAIT_S) == fresh


@pytest.mark.parametrize("error", [torch.OutOfMemoryError, lambda: RuntimeError("cuBLAS: out of memory")])
def test_a_batch_is_free_before_its_halves_are_tried_and_no_answer_moves(engine, thread, break_with, card, error):
    whole = shared(engine)
    card.calls.clear()
    break_with(error, fails=lambda rows: rows > 2, knots=False)
    gc.disable()  # Nothing collects garbage between two batches, so nothing of a batch may need that.
    try:
        halved = thread.submit(shared).result(WAIT_S)
    finally:
        gc.enable()
    assert card.calls == [("8 rows", True), ("4 rows", True), *[("2 rows", True)] * 4]
    assert len(card.held) == 6, "eight and four rows fail, each with hidden states, scratch and a cache"
    for left, right in zip(halved, whole, strict=True):
        assert left == pytest.approx(right, rel=1e-5, abs=1e-5)


def test_one_row_that_does_not_fit_is_out_of_memory_after_all_halves_were_tried(thread, break_with, card):
    prefill = once()
    break_with(torch.OutOfMemoryError, fails=lambda rows: not prefill(rows), knots=False)
    assert type(failure(thread, shared)) is OutOfMemory
    assert [rows for rows, _free in card.calls] == ["8 rows", "4 rows", "2 rows", "1 rows", "empty_cache"]
    assert all(is_free for _rows, is_free in card.calls)


@pytest.mark.parametrize(
    "error", [lambda: RuntimeError("CUDA error: an illegal memory access was encountered"), lambda: KeyError("x")]
)
def test_any_other_failure_is_scoring_failed_and_the_warm_up_row_is_scored_again(
    thread, break_with, card, poisoned, error
):
    fault = break_with(error, fails=once())
    assert type(failure(thread, direct)) is ScoringFailed
    assert card.calls == [("empty_cache", True)]
    assert fault.calls == 2
    assert not poisoned.is_set()
    assert thread.submit(direct).result(WAIT_S)


def test_a_model_that_fails_for_ever_ends_the_process(thread, break_with, poisoned):
    fault = break_with(lambda: RuntimeError("CUDA error: an illegal memory access was encountered"))
    assert type(failure(thread, direct)) is ScoringFailed
    assert poisoned.is_set()
    assert fault.calls == 2
    failure(thread, direct)
    assert fault.calls == 2, "a poisoned model was called again"


def test_a_model_that_gives_nan_fails_the_call_and_gives_no_probability(engine, thread, card, poisoned):
    hook = engine._model.lm_head.register_forward_hook(lambda _layer, _arguments, logits: logits * torch.nan)
    assert type(failure(thread, direct)) is ScoringFailed
    hook.remove()
    assert card.calls == [("empty_cache", True)]
    assert poisoned.is_set(), "the warm-up row had NaN too"


@pytest.mark.parametrize(("growth", "calls"), [(512 << 20, []), ((512 << 20) + 1, [("empty_cache", True)])])
def test_after_a_call_memory_goes_back_only_beyond_512_mib_over_what_the_warm_up_left(thread, card, growth, calls):
    card.reserved_bytes = growth  # Nothing was reserved when the engine had started.
    thread.submit(direct).result(WAIT_S)
    assert card.calls == calls


def test_the_baseline_is_what_is_reserved_once_the_warm_up_has_scored(monkeypatch, tiny_folder, card):
    class Growing(Memory):
        """Reserves a gibibyte with every batch of suffixes."""

        def check_room(self, cache: Any, *, rows: int, width: int, config: Any) -> None:
            self.card.reserved_bytes += GIB

    monkeypatch.setattr(torch_loading, "HostMemory", lambda: Growing(card))
    environ = {"SEMIF_MODEL": str(tiny_folder("tiny-qwen2")), "SEMIF_DEVICE": "cpu", "SEMIF_THREADS": "1"}
    started = start_engine(load_settings(environ, needs_token=False), environ={"HOME": "/nowhere"})
    assert card.reserved_bytes == GIB
    started.tidy(failed=False)
    assert card.calls == []
    started.close()
