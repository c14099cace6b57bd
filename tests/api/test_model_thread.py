"""The model thread: one call at a time, failures in two kinds, memory free before the engine tidies."""

from __future__ import annotations

import threading
import weakref
from typing import TYPE_CHECKING

import pytest
from tests.api.asgi import CountingEngine, Served

from steelyard.decide.domain.errors import InvalidRequest, OutOfMemory, ScoringFailed, is_out_of_memory
from steelyard.decide.engines.fake import FakeEngine
from steelyard.decide.model_thread import ModelThread
from steelyard.decide.startup import warm_up

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

WAIT_S = 10


@pytest.fixture
def thread_of() -> Iterator[Callable[..., ModelThread]]:
    threads = []

    def start(engine: FakeEngine, on_poisoned: Callable[[], object] = lambda: None) -> ModelThread:
        threads.append(ModelThread(engine, warm_up=warm_up, on_poisoned=on_poisoned))
        return threads[-1]

    yield start
    for thread in threads:
        thread.close()


def raising(error: BaseException) -> Callable[[object], None]:
    def job(_engine: object) -> None:
        raise error

    return job


@pytest.mark.parametrize(
    "error",
    [
        OutOfMemory("x"),
        MemoryError(),
        MemoryError("x"),
        RuntimeError("CUDA error: out of memory"),
        RuntimeError("cuDNN: Out of Memory while planning"),
        RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 9 bytes"),
        RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`"),
    ],
    ids=repr,
)
def test_every_library_s_out_of_memory_is_one(error: Exception) -> None:
    assert is_out_of_memory(error)


@pytest.mark.parametrize(
    "error", [RuntimeError("CUDA error: illegal address"), ValueError("out of memory"), KeyError("out of memory")]
)
def test_other_errors_are_none(error: Exception) -> None:
    assert not is_out_of_memory(error)


def test_a_subclass_of_runtime_error_counts_too() -> None:
    class OutOfMemoryError(RuntimeError):
        """As torch has it."""

    assert is_out_of_memory(OutOfMemoryError("CUDA out of memory. Tried to allocate 20.00 MiB"))


@pytest.mark.parametrize("error", [OutOfMemory(""), MemoryError()])
def test_an_out_of_memory_without_a_message_reads_cuda_out_of_memory(thread_of, error: Exception) -> None:
    raised = thread_of(FakeEngine()).submit(raising(error)).exception(WAIT_S)
    assert (type(raised), str(raised)) == (OutOfMemory, "CUDA out of memory")


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (RuntimeError("CUDA error: out of memory"), OutOfMemory),
        (RuntimeError("illegal memory access"), ScoringFailed),
        (ScoringFailed("NaN"), ScoringFailed),
        (KeyError("x"), ScoringFailed),
        (StopIteration(), ScoringFailed),
    ],
    ids=repr,
)
def test_a_failure_is_raised_unchained(thread_of, error: Exception, kind: type[Exception]) -> None:
    def job(_engine: object) -> None:
        raise error from OSError("inner")

    raised = thread_of(FakeEngine()).submit(job).exception(WAIT_S)
    assert type(raised) is kind
    assert raised is not error
    assert (raised.__cause__, raised.__context__) == (None, None)


def test_a_value_error_passes_as_it_is_and_the_engine_tidies(thread_of) -> None:
    engine, error = CountingEngine(), InvalidRequest("bad row")
    assert thread_of(engine).submit(raising(error)).exception(WAIT_S) is error
    assert engine.tidied == [False]  # It was refused before the model ran, so nothing was left behind.


class _Tensor:
    """Something large that a failed call holds, in a reference cycle as frames and modules often are."""

    def __init__(self) -> None:
        self.itself = self


class _Holding(FakeEngine):
    """Fails once with a large object in its frames, and notes at every tidying whether that is still alive."""

    def __init__(self, error: Callable[[], Exception]) -> None:
        super().__init__()
        self._error = error
        self._held: weakref.ref[_Tensor] | None = None
        self.tidied: list[tuple[bool, bool]] = []

    def forward(self, tokens: Sequence[int], slots: Sequence[int]) -> list[float]:
        if self._held is not None:
            return super().forward(tokens, slots)
        tensor = _Tensor()
        self._held = weakref.ref(tensor)
        raise self._error() from OSError("inner", tensor)

    def tidy(self, *, failed: bool) -> None:
        assert self._held is not None
        self.tidied.append((failed, self._held() is None))


@pytest.mark.parametrize(
    "error",
    [
        lambda: RuntimeError("CUDA error: out of memory"),
        lambda: OutOfMemory("x"),
        MemoryError,
        lambda: RuntimeError("illegal memory access"),
        lambda: ScoringFailed("NaN"),
    ],
)
def test_what_a_failed_call_held_is_freed_before_the_engine_tidies(thread_of, error: Callable[[], Exception]) -> None:
    engine = _Holding(error)
    raised = thread_of(engine).submit(warm_up).exception(WAIT_S)
    assert isinstance(raised, OutOfMemory | ScoringFailed)
    assert engine.tidied[0] == (True, True)


def test_over_http_too_nothing_of_a_failed_call_is_left_when_the_engine_tidies(serving) -> None:
    engine = _Holding(lambda: RuntimeError("CUDA error: out of memory"))
    assert serving(engine).decide().status_code == 503
    assert engine.tidied == [(True, True)]


def test_a_call_that_succeeds_is_tidied_as_such(served: Served, engine: CountingEngine) -> None:
    served.decide()
    assert engine.tidied == [False]


@pytest.mark.parametrize(("marker", "calls"), [("[fake:failure]", 2), ("[fake:nan]", 2), ("[fake:out_of_memory]", 1)])
def test_after_a_failed_scoring_the_warm_up_row_is_scored_again(
    served: Served, engine: CountingEngine, marker: str, calls: int
) -> None:
    served.decide(state=marker)
    assert engine.calls == ["forward"] * calls
    assert not served.poisoned.is_set()


class _Poisoned(CountingEngine):
    """Works until its first failure and never again, as a CUDA context does."""

    is_dead = False

    def forward(self, tokens: Sequence[int], slots: Sequence[int]) -> list[float]:
        if self.is_dead:
            self.calls.append("dead")
            raise RuntimeError("CUDA error: an illegal memory access was encountered")
        try:
            return super().forward(tokens, slots)
        except RuntimeError:
            self.is_dead = True
            raise


def test_a_poisoned_engine_is_reported_and_later_jobs_fail_without_a_call(
    serving, caplog: pytest.LogCaptureFixture
) -> None:
    engine = _Poisoned()
    served = serving(engine)
    assert served.decide().status_code == 200
    assert not served.poisoned.is_set()
    assert served.decide(state="[fake:failure]").status_code == 500
    assert served.poisoned.is_set()
    assert "the process ends" in caplog.text
    assert engine.calls == ["forward", "forward", "dead"]
    answer = served.decide()
    assert (answer.status_code, answer.json()["error"]["code"]) == (500, "scoring_failed")
    assert engine.calls == ["forward", "forward", "dead"]


class _Untidy(CountingEngine):
    """Can give no memory back, as a CUDA context cannot that a failed call has poisoned."""

    def __init__(self, *, is_dead: bool) -> None:
        super().__init__()
        self._is_dead = is_dead

    def tidy(self, *, failed: bool) -> None:
        super().tidy(failed=failed)
        raise RuntimeError("CUDA error: an illegal memory access was encountered")

    def forward(self, tokens: Sequence[int], slots: Sequence[int]) -> list[float]:
        if self.tidied and self._is_dead:
            raise RuntimeError("CUDA error: an illegal memory access was encountered")
        return super().forward(tokens, slots)


@pytest.mark.parametrize("marker", ["", "[fake:failure]", "[fake:out_of_memory]"])
@pytest.mark.parametrize("is_dead", [True, False])
def test_an_engine_that_cannot_tidy_must_show_that_it_still_scores(serving, marker: str, is_dead: bool) -> None:
    engine = _Untidy(is_dead=is_dead)
    served = serving(engine)
    status = {"": 200, "[fake:failure]": 500, "[fake:out_of_memory]": 503}[marker]
    assert served.decide(state=f"state {marker}").status_code == status
    assert served.poisoned.is_set() == is_dead
    assert len(engine.tidied) == 1


def test_an_out_of_memory_poisons_nothing(serving) -> None:
    served = serving(_Poisoned())
    served.decide(state="[fake:out_of_memory]")
    assert served.decide().status_code == 200
    assert not served.poisoned.is_set()


def test_jobs_run_one_after_another_in_the_order_they_came(thread_of) -> None:
    thread, running, order = thread_of(FakeEngine()), threading.Lock(), []

    def job(n: int) -> None:
        assert running.acquire(blocking=False)
        order.append(n)
        running.release()

    futures = [thread.submit(lambda _engine, n=n: job(n)) for n in range(50)]
    assert [future.result(WAIT_S) for future in futures] == [None] * 50
    assert order == list(range(50))


def test_one_thread_runs_every_job_however_many_wait(thread_of) -> None:
    thread, all_queued = thread_of(FakeEngine()), threading.Event()

    def job() -> int:
        assert all_queued.wait(WAIT_S)
        return threading.get_ident()

    futures = [thread.submit(lambda _engine: job()) for _ in range(5)]
    all_queued.set()
    (ident,) = {future.result(WAIT_S) for future in futures}
    assert ident != threading.get_ident()


def test_a_job_cancelled_before_its_turn_never_runs_and_a_running_one_ends(thread_of) -> None:
    thread = thread_of(FakeEngine())
    started, may_end = threading.Event(), threading.Event()
    ran: list[object] = []

    def slow(_engine: object) -> str:
        started.set()
        assert may_end.wait(WAIT_S)
        return "ended"

    running, waiting = thread.submit(slow), thread.submit(ran.append)
    last = thread.submit(lambda _engine: "last")
    assert started.wait(WAIT_S)
    assert thread.running_seconds is not None
    assert not running.cancel()
    assert waiting.cancel()
    may_end.set()
    assert (running.result(WAIT_S), last.result(WAIT_S)) == ("ended", "last")
    assert ran == []


def test_an_idle_thread_has_no_running_call(thread_of) -> None:
    thread = thread_of(FakeEngine())
    thread.submit(warm_up).result(WAIT_S)
    thread.submit(lambda _engine: None).result(WAIT_S)
    thread.close()
    assert thread.running_seconds is None


def test_closing_ends_the_running_job_drops_the_others_and_unloads_the_engine() -> None:
    engine = CountingEngine()
    thread = ModelThread(engine, warm_up=warm_up, on_poisoned=lambda: None)
    started, may_end = threading.Event(), threading.Event()

    def slow(_engine: object) -> None:
        started.set()
        assert may_end.wait(WAIT_S)

    running, waiting = thread.submit(slow), thread.submit(lambda _engine: None)
    assert started.wait(WAIT_S)
    closing = threading.Thread(target=thread.close)
    closing.start()
    may_end.set()
    closing.join(WAIT_S)
    assert running.exception(WAIT_S) is None
    assert waiting.cancelled()
    assert engine.is_closed
