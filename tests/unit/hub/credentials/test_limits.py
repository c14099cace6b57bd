"""Rates with a clock that a test moves."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from steelyard.hub.credentials.limits import MOST_KEYS, Buckets


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def buckets(clock) -> Buckets:
    return Buckets(per_second=2.0, burst=3, clock=clock)


def taken(buckets: Buckets, key: str = "a", *, count: int) -> list[float]:
    return [buckets.take(key) for _ in range(count)]


def test_a_burst_is_given_and_then_the_time_to_wait(buckets):
    assert taken(buckets, count=5) == [0.0, 0.0, 0.0, 0.5, 0.5]


def test_a_token_comes_back_after_its_time_and_not_before(buckets, clock):
    taken(buckets, count=3)
    clock.now += 0.499
    assert buckets.take("a") == pytest.approx(0.001)
    clock.now += 0.001
    assert taken(buckets, count=2) == [0.0, 0.5]


def test_no_more_than_a_burst_is_saved_up(buckets, clock):
    taken(buckets, count=3)
    clock.now += 1e6
    assert taken(buckets, count=4) == [0.0, 0.0, 0.0, 0.5]


def test_keys_have_tokens_of_their_own(buckets):
    taken(buckets, "a", count=4)
    assert buckets.take("b") == 0.0


def test_asking_in_vain_costs_no_time(buckets, clock):
    taken(buckets, count=100)
    clock.now += 0.5
    assert buckets.take("a") == 0.0


def test_memory_is_bounded_and_who_asks_most_is_remembered(clock):
    buckets = Buckets(per_second=0.001, burst=1, clock=clock)
    buckets.take("loud")
    for number in range(3 * MOST_KEYS):
        buckets.take(str(number))
        if number % 1000 == 0:
            assert buckets.take("loud") > 0, "one in a thousand keys is the loud one's"
    assert len(buckets) == MOST_KEYS


@given(steps=st.lists(st.floats(0, 10), max_size=60), per_second=st.floats(0.1, 100), burst=st.integers(1, 20))
def test_never_more_is_given_than_the_burst_and_the_rate_allow(steps, per_second, burst):
    clock = Clock()
    buckets = Buckets(per_second=per_second, burst=burst, clock=clock)
    given_count = 0
    for step in steps:
        clock.now += step
        wait_s = buckets.take("a")
        given_count += wait_s == 0.0
        assert 0.0 <= wait_s <= 1.0 / per_second + 1e-6
    assert given_count <= burst + (clock.now - Clock.now) * per_second + 1e-6
