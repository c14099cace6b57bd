from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from steelyard.embed.domain.batches import BatchLimits, choose

LENGTHS = st.lists(st.integers(1, 300), min_size=1, max_size=80)
LIMITS = st.builds(BatchLimits, max_tokens=st.integers(1, 2000), max_rows=st.integers(1, 40))


@given(LENGTHS, LIMITS)
@example([300], BatchLimits(max_tokens=10, max_rows=1))
def test_the_one_that_has_waited_longest_always_goes(lengths, limits):
    assert 0 in choose(lengths, limits=limits)


@given(LENGTHS, LIMITS)
def test_a_batch_keeps_its_limits_or_is_one_row(lengths, limits):
    chosen = choose(lengths, limits=limits)
    longest = max(lengths[place] for place in chosen)
    assert len(chosen) == 1 or (len(chosen) <= limits.max_rows and len(chosen) * longest <= limits.max_tokens)


@given(LENGTHS, LIMITS)
def test_no_place_is_chosen_twice_and_the_longest_comes_first(lengths, limits):
    chosen = choose(lengths, limits=limits)
    assert len(set(chosen)) == len(chosen)
    assert [lengths[place] for place in chosen] == sorted((lengths[place] for place in chosen), reverse=True)


@given(LENGTHS, LIMITS)
def test_padding_stays_a_small_share_of_a_row(lengths, limits):
    chosen = [lengths[place] for place in choose(lengths, limits=limits)]
    assert max(chosen) - min(chosen) <= max(4, max(chosen) // 8)


@given(LENGTHS, LIMITS)
def test_taking_batch_after_batch_takes_every_row_once(lengths, limits):
    waiting = list(range(len(lengths)))
    taken = []
    while waiting:
        chosen = [waiting[place] for place in choose([lengths[row] for row in waiting], limits=limits)]
        taken += chosen
        waiting = [row for row in waiting if row not in chosen]
    assert sorted(taken) == list(range(len(lengths)))


@pytest.mark.parametrize(
    ("lengths", "chosen"),
    [
        ([10, 100, 9, 11], [3, 0, 2]),  # Only those of like length.
        ([10, 14, 15], [1, 0]),  # Four tokens of padding at most.
        ([100, 112, 87], [1, 0]),  # An eighth of the longest at most.
        ([10, 12, 9, 8, 13], [0, 2, 3]),  # The nearest first, three of them in the budget.
    ],
)
def test_rows_of_the_nearest_lengths_join(lengths, chosen):
    assert choose(lengths, limits=BatchLimits(max_tokens=40 if len(lengths) > 4 else 1000, max_rows=32)) == chosen
