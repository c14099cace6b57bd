"""The worker: batches across requests, failures that stay where they belong, and a thread that never dies silently."""

from __future__ import annotations

import threading

import pytest
from tests.unit.embed.makers import WAIT_S, HeldRuntime

from steelyard.embed.domain.batches import BatchLimits
from steelyard.embed.domain.errors import EmbeddingFailed, OutOfMemory
from steelyard.embed.startup import warm_up
from steelyard.embed.worker import Worker


@pytest.fixture
def runtime():
    return HeldRuntime()


@pytest.fixture
def costs():
    return []


@pytest.fixture
def poisoned():
    return threading.Event()


@pytest.fixture
def worker(runtime, costs, poisoned):
    limits = BatchLimits(max_tokens=100, max_rows=8)
    worker = Worker(runtime, limits=limits, warm_up=warm_up, on_poisoned=poisoned.set, on_batch=costs.append)
    yield worker
    runtime.is_held = False
    runtime.may_go.release(100)
    worker.close()


def tokens(runtime, *texts):
    return runtime.tokenizer.encode(texts)


@pytest.fixture
def submit(worker, runtime):
    return lambda *texts: worker.submit(tokens(runtime, *texts)).future


@pytest.fixture
def held(runtime, submit):
    """Hold the worker in a first call, so that what is submitted next waits together."""
    runtime.is_held = True
    first = submit("first")
    assert runtime.began.acquire(timeout=WAIT_S)

    def go():
        runtime.is_held = False
        runtime.may_go.release()
        first.result(WAIT_S)

    return go


def test_vectors_come_in_the_order_of_the_rows(submit, runtime):
    texts = ["a b c d e f", "a", "b c", "a"]
    alone = [submit(text).result(WAIT_S)[0] for text in texts]
    assert submit(*texts).result(WAIT_S) == alone


def test_requests_that_wait_are_embedded_together(held, submit, runtime, costs):
    futures = [submit("a b"), submit("c", "d e f")]
    held()
    for future in futures:
        future.result(WAIT_S)
    assert len(runtime.calls) == 2
    assert (costs[1].rows, costs[1].tokens, costs[1].padding) == (3, 12, 3)


def test_a_request_whose_client_left_is_never_computed(held, submit, runtime):
    gone, kept = submit("gone"), submit("kept")
    assert gone.cancel()
    held()
    kept.result(WAIT_S)
    assert tokens(runtime, "gone")[0] not in [row for rows in runtime.calls for row in rows]


def test_a_running_request_may_be_left_and_the_worker_goes_on(held, submit):
    leaving = submit("leaving")
    held()
    leaving.cancel()
    assert submit("next").result(WAIT_S)


@pytest.mark.parametrize(
    ("marker", "error"),
    [
        ("[fake:failure]", EmbeddingFailed),
        ("[fake:out_of_memory]", OutOfMemory),
        ("[fake:nan]", EmbeddingFailed),
    ],
)
def test_a_failing_row_fails_its_own_request_and_no_other(*, held, submit, poisoned, marker, error):
    bad, good = submit("fine", f"x {marker}"), submit("good", "words")
    held()
    assert len(good.result(WAIT_S)) == 2
    with pytest.raises(error):
        bad.result(WAIT_S)
    assert submit("after").result(WAIT_S)
    assert not poisoned.is_set()


def test_a_model_that_no_longer_embeds_ends_the_process_and_fails_all_that_waits(held, submit, runtime, poisoned):
    futures = [submit("x"), submit("y"), submit("a much longer text which goes into a batch of its own, later")]
    runtime.dies_at_call = 2  # The batch of the first two.
    held()
    for future in futures:
        with pytest.raises(EmbeddingFailed):
            future.result(WAIT_S)
    assert poisoned.wait(WAIT_S)
    with pytest.raises(EmbeddingFailed, match="going down"):
        submit("late").result(WAIT_S)


def test_a_fault_of_the_thread_itself_fails_its_requests_and_ends_the_process(runtime, poisoned):
    def broken(_cost):
        raise SystemExit  # What no handler of a runtime's errors would catch.

    limits = BatchLimits(max_tokens=100, max_rows=1)
    worker = Worker(runtime, limits=limits, warm_up=warm_up, on_poisoned=poisoned.set, on_batch=broken)
    futures = [worker.submit(tokens(runtime, text)).future for text in ("one", "two")]
    for future in futures:
        with pytest.raises(EmbeddingFailed):
            future.result(WAIT_S)
    assert poisoned.wait(WAIT_S)
    worker.close()


def test_closing_lets_the_running_call_end_fails_what_waits_and_unloads_the_model(runtime, worker, submit, held):
    running = threading.Thread(target=worker.close)
    waiting = submit("waiting")
    running.start()
    runtime.may_go.release()
    running.join(WAIT_S)
    with pytest.raises(EmbeddingFailed):
        waiting.result(WAIT_S)
    assert runtime.is_closed


def test_the_age_of_the_running_call_is_told(worker, held, submit):
    assert worker.running_seconds is not None
    assert worker.waiting_rows == 0
    waiting = submit("a", "b")
    assert worker.waiting_rows == 2
    held()
    waiting.result(WAIT_S)
    assert worker.running_seconds is None
