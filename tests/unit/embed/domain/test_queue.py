from __future__ import annotations

from array import array

import pytest
from hypothesis import given
from hypothesis import strategies as st

from steelyard.embed.domain.batches import BatchLimits
from steelyard.embed.domain.errors import EmbeddingFailed
from steelyard.embed.domain.queue import Job, Queue

ROOMY = BatchLimits(max_tokens=10_000, max_rows=100)


def rows(*lengths: int) -> list[array[int]]:
    return [array("i", [1] * length) for length in lengths]


def queue_of(*jobs: Job, limits: BatchLimits = ROOMY) -> Queue:
    queue = Queue(limits)
    for job in jobs:
        queue.add(job)
    return queue


def drained(queue: Queue) -> list[list[tuple[Job, int]]]:
    return [[(place.job, place.row) for place in batch] for batch in iter(queue.take, [])]


@given(
    st.lists(st.lists(st.integers(1, 200), min_size=1, max_size=30), min_size=1, max_size=6),
    st.builds(BatchLimits, max_tokens=st.integers(1, 1000), max_rows=st.integers(1, 20)),
)
def test_every_row_leaves_once_and_each_job_gets_its_own_vectors_in_its_order(lengths, limits):
    jobs = [Job(rows(*of_job)) for of_job in lengths]
    queue = queue_of(*jobs, limits=limits)
    assert len(queue) == sum(map(len, lengths))
    taken = [place for batch in drained(queue) for place in batch]
    assert len(set(taken)) == len(taken) == sum(map(len, lengths))
    for job, row in taken:
        job.put(row, array("f", [jobs.index(job), row]))
    for number, job in enumerate(jobs):
        assert [list(vector) for vector in job.future.result(0)] == [[number, row] for row in range(len(job.rows))]


def test_rows_of_several_jobs_share_a_batch():
    one, other = Job(rows(5, 6)), Job(rows(6, 5))
    (batch,) = drained(queue_of(one, other))
    assert set(batch) == {(one, 0), (one, 1), (other, 0), (other, 1)}


def test_a_job_with_very_many_rows_holds_up_no_other():
    large, small = Job(rows(*[50] * 3000)), Job(rows(10))
    queue = queue_of(large, small, limits=BatchLimits(max_tokens=500, max_rows=10))
    assert {place.job for place in queue.take()} == {large}
    assert {place.job for place in queue.take()} == {small}
    assert len(queue) == 2990


def test_jobs_take_turns():
    jobs = [Job(rows(length, length)) for length in (10, 50, 100)]
    queue = queue_of(*jobs, limits=BatchLimits(max_tokens=1000, max_rows=1))
    assert [batch[0][0] for batch in drained(queue)] == [*jobs, *jobs]


def test_a_job_that_nobody_waits_for_is_dropped_before_its_rows_are_chosen():
    gone, kept = Job(rows(5, 5)), Job(rows(5))
    queue = queue_of(gone, kept)
    gone.future.cancel()
    assert drained(queue) == [[(kept, 0)]]


def test_an_empty_queue_gives_nothing():
    assert queue_of().take() == []


def test_clearing_gives_the_jobs_that_waited():
    one, other = Job(rows(5)), Job(rows(5))
    queue = queue_of(one, other)
    assert queue.clear() == [one, other]
    assert len(queue) == 0


def test_a_failed_job_is_not_wanted_and_stays_failed():
    job = Job(rows(5, 5))
    job.fail(EmbeddingFailed("first"))
    assert not job.is_wanted
    job.fail(EmbeddingFailed("second"))
    job.put(0, array("f", [0.0]))
    job.put(1, array("f", [0.0]))
    with pytest.raises(EmbeddingFailed, match="first"):
        job.future.result(0)


def test_a_job_whose_caller_left_takes_no_result():
    job = Job(rows(5))
    job.future.cancel()
    job.put(0, array("f", [0.0]))
    assert job.future.cancelled()
