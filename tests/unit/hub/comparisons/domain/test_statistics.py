from __future__ import annotations

import itertools
import math
import statistics as stdlib
import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.hub.comparisons.makers import SEED

from steelyard.hub.comparisons.domain.statistics import (
    RESAMPLES,
    Paired,
    compare,
    mean,
    percentile,
    resamples,
    rounded,
)

SHARES = st.sampled_from([0.0, 1.0, 1 / 3, 0.1, 0.2, 0.30000000000000004, 0.63092975357]) | st.floats(0, 1)
PAIRS = st.lists(st.tuples(SHARES, SHARES), min_size=1, max_size=40)


def differing(*differences: float, seed: str = SEED) -> Paired:
    return compare([[0.0]] * len(differences), [[one] for one in differences], seed=seed)[0]


def spread_over(count: int) -> list[float]:
    """Return *count* non-zero differences from -0.3 to 0.4 without a pattern."""
    return [((7 * place) % 29 - 12.5) / 41 for place in range(count)]


# The golden values below are of SHAKE-128 and integer arithmetic: no version of numpy and no processor may change them.


def test_the_resamples_are_the_same_for_ever():
    drawn = resamples(5, seed=SEED).astype(int).tolist()
    assert drawn[:3] == [[0, 1, 1, 2, 1], [1, 1, 1, 1, 1], [0, 0, 3, 0, 2]]
    assert sum(row[0] for row in drawn) == 9966


def test_a_comparison_is_the_same_for_ever():
    assert differing(*spread_over(30)) == Paired(
        delta=0.025203252033,
        spread=0.213373979868,
        interval=(-0.051219512195, 0.1),
        one_sided=(-0.039024390244, 0.088617886179),
        p_value=0.526947305269,
        rises=16,
        ties=0,
        falls=14,
    )


def test_another_seed_draws_others():
    assert resamples(5, seed="0" * 64).tolist() != resamples(5, seed=SEED).tolist()
    assert differing(*spread_over(30), seed="0" * 64) != differing(*spread_over(30))


@pytest.mark.parametrize("count", [1, 2, 30, 100])
def test_each_resample_draws_as_many_cases_as_there_are_and_none_is_favoured(count):
    drawn = resamples(count, seed=SEED)
    assert drawn.shape == (RESAMPLES, count)
    assert (drawn.sum(axis=1) == count).all()
    # A case's count over all resamples is binomial; six standard deviations.
    assert np.abs(drawn.sum(axis=0) - RESAMPLES).max() <= 6 * math.sqrt(RESAMPLES)


def test_the_interval_is_the_normal_one_where_the_mean_is_normal():
    differences = spread_over(100)
    error = stdlib.stdev(differences) * math.sqrt(99) / 100
    found = differing(*differences)
    for bound, z in zip((*found.interval, *found.one_sided), (-1.96, 1.96, -1.645, 1.645), strict=True):
        assert bound == pytest.approx(found.delta + z * error, abs=0.1 * error)


def test_the_bounds_are_those_of_the_sorted_means():
    differences = spread_over(7)
    means = sorted(rounded(value) for value in resamples(7, seed=SEED) @ np.array(differences) / 7)
    found = differing(*differences)
    assert found.interval == pytest.approx((means[249], means[-250]), abs=1e-12)
    assert found.one_sided == pytest.approx((means[499], means[-500]), abs=1e-12)


def test_one_case_has_no_spread_and_its_bounds_are_its_difference():
    assert differing(-0.25) == Paired(
        delta=-0.25,
        spread=0.0,
        interval=(-0.25, -0.25),
        one_sided=(-0.25, -0.25),
        p_value=1.0,
        rises=0,
        ties=0,
        falls=1,
    )


def test_no_difference_at_all_is_a_zero_without_a_sign_and_a_p_value_of_one():
    found = differing(0.0, 0.0, 0.0)
    assert str((found.delta, found.interval, found.p_value)) == "(0.0, (0.0, 0.0), 1.0)"
    assert (found.rises, found.ties, found.falls) == (0, 3, 0)


def test_what_is_equal_on_paper_is_a_tie():
    found = compare([[0.1 + 0.2], [1 / 3]], [[0.3], [1 - 2 / 3]], seed=SEED)[0]
    assert (found.ties, found.delta, found.p_value) == (2, 0.0, 1.0)


def test_neighbours_of_the_stored_decimals_are_a_tie_and_others_are_not():
    assert differing(1e-12).ties == 1
    assert differing(3e-12).rises == 1


def exact_p(differences: list[float]) -> float:
    total = abs(math.fsum(differences))
    every = list(itertools.product((1, -1), repeat=len(differences)))
    sums = [abs(math.fsum(sign * one for sign, one in zip(signs, differences, strict=True))) for signs in every]
    return sum(one >= total - 1e-9 for one in sums) / len(every)


@given(st.lists(st.sampled_from([0.1, 0.2, 0.3, -0.1, -0.2, 1 / 3, -2 / 3, 1.0]), min_size=1, max_size=9))
def test_few_differences_have_the_exact_p_value(differences):
    assert differing(*differences).p_value == pytest.approx(exact_p(differences), abs=1e-12)


def test_zero_differences_are_dropped():
    assert differing(0.1, 0.2, -0.3, 0.4).p_value == differing(*[0.0] * 50, 0.1, 0.2, -0.3, 0.4).p_value


def test_a_tie_of_sums_within_a_float_s_noise_is_as_extreme():
    # On paper the sum is 0, so that every flip is at least as extreme.
    assert differing(0.1, 0.2, -0.3).p_value == 1.0
    assert differing(1 / 3, 1 / 3, -2 / 3).p_value == 1.0


def test_fourteen_differences_are_enumerated_and_fifteen_are_drawn():
    assert differing(*[0.1] * 14).p_value == rounded(2 / 2**14)
    fifteen = differing(*[0.1] * 15).p_value
    assert (fifteen * 10_001) == pytest.approx(round(fifteen * 10_001), abs=1e-7)
    assert 1 / 10_001 <= fifteen < 0.001


def test_a_drawn_p_value_is_never_zero():
    assert differing(*[0.5] * 100).p_value == rounded(1 / 10_001)


def test_a_drawn_p_value_is_near_the_exact_one():
    differences = [*spread_over(14), 0.2, 0.25, 0.3]
    assert differing(*differences).p_value == pytest.approx(exact_p(differences), abs=0.02)


@given(PAIRS)
@settings(max_examples=30)
def test_exchanged_legs_are_the_mirror_image(pairs):
    current, candidate = [[a] for a, _ in pairs], [[b] for _, b in pairs]
    there, back = compare(current, candidate, seed=SEED)[0], compare(candidate, current, seed=SEED)[0]
    assert there == back.mirrored()
    assert there.mirrored().mirrored() == there


@given(PAIRS)
@settings(max_examples=30)
def test_a_comparison_keeps_its_promises(pairs):
    found = compare([[a] for a, _ in pairs], [[b] for _, b in pairs], seed=SEED)[0]
    differences = [b - a for a, b in pairs]
    assert found.rises + found.ties + found.falls == len(pairs)
    assert found.delta == pytest.approx(stdlib.fmean(differences), abs=1e-11)
    assert found.interval[0] <= found.one_sided[0] <= found.one_sided[1] <= found.interval[1]
    assert min(differences) - 1e-11 <= found.interval[0]
    assert found.interval[1] <= max(differences) + 1e-11
    assert 0 < found.p_value <= 1


@given(PAIRS)
@settings(max_examples=20)
def test_metrics_share_their_resamples(pairs):
    rows = [((a, 1 - a, 0.5), (b, 1 - b, 0.5)) for a, b in pairs]
    first, turned, still = compare([row[0] for row in rows], [row[1] for row in rows], seed=SEED)
    assert first.ties == turned.ties
    assert first.one_sided == pytest.approx(turned.mirrored().one_sided, abs=1e-11)
    assert (still.ties, still.p_value) == (len(pairs), 1.0)


@given(PAIRS, st.randoms())
@settings(max_examples=20)
def test_the_p_value_does_not_depend_on_the_order_of_few_cases(pairs, random):
    few = pairs[:14]
    shuffled = random.sample(few, len(few))
    p_values = [compare([[a] for a, _ in row], [[b] for _, b in row], seed=SEED)[0].p_value for row in (few, shuffled)]
    assert p_values[0] == p_values[1]


@given(st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=120), st.integers(1, 100))
def test_a_percentile_is_the_smallest_value_that_enough_do_not_exceed(values, percent):
    found = percentile(values, percent)
    assert found == min(one for one in values if 100 * sum(other <= one for other in values) >= percent * len(values))


@pytest.mark.parametrize(
    ("values", "p50", "p95"), [([], None, None), ([7.0], 7.0, 7.0), ([4.0, 1.0, 3.0, 2.0], 2.0, 4.0)]
)
def test_percentiles_of_few_values(values, p50, p95):
    assert (percentile(values, 50), percentile(values, 95)) == (p50, p95)


def test_nineteen_of_twenty_is_the_ninety_fifth_percentile_of_twenty():
    assert percentile(list(range(1, 21)), 95) == 19
    assert percentile(list(range(1, 101)), 95) == 95


def test_a_mean_is_exact_and_rounded():
    assert mean([0.1] * 10) == 0.1
    assert mean([1.0, 0.0, 0.0]) == 0.333333333333
    assert str(mean([-0.0])) == "0.0"


def test_a_hundred_cases_and_seven_metrics_take_milliseconds():
    rows = np.random.default_rng(1).random((2, 100, 7)).tolist()
    started = time.perf_counter()
    compare(*rows, seed=SEED)
    assert time.perf_counter() - started < 1  # About 25 ms; the machine is shared.
