from __future__ import annotations

import resource

import pytest
from tests.unit.decide.acceptance.acceptances import Card
from tests.unit.decide.makers import ScriptedEngine

from steelyard.decide.acceptance.measurements import measure_memory, measure_speed, peak_resident_bytes
from steelyard.decide.domain.errors import OutOfMemory
from steelyard.decide.model_thread import ModelThread
from steelyard.decide.startup import warm_up


@pytest.fixture
def threads():
    """Give a model thread for each engine, closed at the end."""
    opened: list[ModelThread] = []

    def open_thread(engine) -> ModelThread:
        opened.append(ModelThread(engine, warm_up=warm_up, on_poisoned=lambda: None))
        return opened[-1]

    yield open_thread
    for thread in opened:
        thread.close()


def test_an_engine_without_a_count_of_gpu_memory_has_a_resident_peak_only(threads):
    memory = measure_memory(threads(ScriptedEngine()), max_tokens=4096)
    assert memory.gpu_bytes is None
    assert memory.resident_bytes > 10 * 2**20


def test_the_resident_peak_is_no_more_than_what_the_system_counts_for_the_whole_line_of_processes():
    assert 10 * 2**20 < peak_resident_bytes() <= resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 + 2**20


def test_the_longest_prompt_goes_through_the_model_alone_and_once(threads):
    engine = Card()
    memory = measure_memory(threads(engine), max_tokens=100_000)
    assert engine.evaluated_tokens == memory.input_tokens
    assert 4093 <= memory.input_tokens <= 4096


def test_each_call_is_told_with_its_decisions(threads):
    told: list[int] = []
    speed = measure_speed(threads(Card()), max_tokens=4096, repeats=4, on_call=told.append)
    assert told == [21, 21, 21, 21, 1, 1, 1]
    assert len(speed.shared_seconds) == 4
    assert all(seconds > 0 for seconds in (*speed.shared_seconds, *speed.direct_seconds))


def test_memory_that_runs_out_is_an_error(threads):
    with pytest.raises(OutOfMemory):
        measure_speed(threads(Card(fits=lambda _: False)), max_tokens=4096, repeats=3, on_call=lambda _: None)
