from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from steelyard.decide.domain.arithmetic import argmax, log_sum_exp, softmax

fp32 = st.floats(width=32, allow_nan=False, allow_infinity=False)
some_logits = st.lists(fp32, min_size=1, max_size=16)
usual_logits = st.lists(st.floats(-50, 50, width=32), min_size=1, max_size=16)
temperatures = st.floats(0.05, 20)


@given(some_logits, temperatures)
def test_a_softmax_is_a_distribution_whatever_the_logits(logits, temperature):
    probabilities = softmax(logits, temperature=temperature)
    assert len(probabilities) == len(logits)
    assert all(0 <= p <= 1 for p in probabilities)
    assert math.fsum(probabilities) == pytest.approx(1)


@given(usual_logits)
def test_a_softmax_is_the_quotient_of_exponentials(logits):
    exponentials = [math.exp(logit) for logit in logits]
    assert softmax(logits) == pytest.approx([e / math.fsum(exponentials) for e in exponentials], rel=1e-12)


@given(usual_logits, temperatures)
def test_a_temperature_divides_the_logits(logits, temperature):
    assert softmax(logits, temperature=temperature) == softmax([logit / temperature for logit in logits])


@given(some_logits, temperatures)
def test_a_temperature_never_inverts_two_options(logits, temperature):
    probabilities = softmax(logits, temperature=temperature)
    ordered = [p for _, p in sorted(zip(logits, probabilities, strict=True))]
    assert ordered == sorted(probabilities)


@given(st.lists(st.integers(-(2**15), 2**15 - 1).map(lambda step: step / 2**10), min_size=2, max_size=16), temperatures)
def test_a_temperature_never_changes_the_argmax(logits, temperature):
    assert argmax(softmax(logits, temperature=temperature)) == argmax(softmax(logits)) == argmax(logits)


@given(usual_logits, st.randoms())
def test_the_order_of_the_logits_moves_no_probability(logits, random):
    order = random.sample(range(len(logits)), len(logits))
    probabilities = softmax(logits)
    assert softmax([logits[i] for i in order]) == [probabilities[i] for i in order]
    assert log_sum_exp([logits[i] for i in order]) == log_sum_exp(logits)


@given(usual_logits)
def test_log_sum_exp_is_the_logarithm_of_the_sum(logits):
    assert log_sum_exp(logits) == pytest.approx(math.log(math.fsum(map(math.exp, logits))), rel=1e-12, abs=1e-12)


def test_extreme_logits_do_not_overflow():
    largest = 3.4028234663852886e38
    assert softmax([largest, -largest], temperature=0.05) == [1.0, 0.0]
    assert log_sum_exp([largest, -largest]) == largest


def test_ties_go_to_the_earliest():
    assert argmax([0.2, 0.4, 0.4]) == 1
    assert argmax([1.0]) == 0
