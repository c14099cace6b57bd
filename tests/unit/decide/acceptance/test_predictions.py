from __future__ import annotations

import math

import pytest
from tests.unit.decide.makers import prediction

from steelyard.decide.acceptance.predictions import parse_prediction

RECORD = {
    "id": "größe",
    "option_ids": ["yes", "no"],
    "probabilities": [0.25, 0.75],
    "option_logits": [1, 2.5],
    "prompt_sha256": "ab",
}


def test_a_scorers_result_is_a_prediction():
    one = parse_prediction(RECORD | {"readout": "further keys are ignored"})
    assert (one.id, one.option_ids, one.probabilities, one.logits) == ("größe", ("yes", "no"), (0.25, 0.75), (1.0, 2.5))
    assert one.prompt_sha256 == "ab"


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"id": None}, "id and prompt_sha256 must be strings"),
        ({"prompt_sha256": 5}, "id and prompt_sha256 must be strings"),
        ({"option_ids": None}, "option_ids must be a list of at least two strings"),
        ({"option_ids": ["yes"]}, "option_ids must be a list of at least two strings"),
        ({"option_ids": ["yes", 2]}, "option_ids must be a list of at least two strings"),
        ({"option_ids": ["a", "b", "a"]}, "option_ids must not repeat"),
        ({"probabilities": [1.0]}, "probabilities must be one finite number per option, from 0 to 1"),
        ({"probabilities": "01"}, "probabilities must be one finite number per option, from 0 to 1"),
        ({"probabilities": [math.nan, 1.0]}, "probabilities must be one finite number per option, from 0 to 1"),
        ({"probabilities": [True, 0.0]}, "probabilities must be one finite number per option, from 0 to 1"),
        ({"probabilities": [0.5, 1.5]}, "probabilities must be one finite number per option, from 0 to 1"),
        ({"option_logits": [0.5, None]}, "option_logits must be one finite number per option"),
        ({"option_logits": [0.5, 10**400]}, "option_logits must be one finite number per option"),
        ({"option_logits": [0.5, math.inf]}, "option_logits must be one finite number per option"),
    ],
)
def test_what_is_no_prediction_is_refused_with_what_it_lacks(changes, text):
    with pytest.raises(ValueError, match=text):
        parse_prediction(RECORD | changes)


def test_ties_go_to_the_earlier_option():
    assert prediction(0.2, 0.4, 0.4).top == "o1"


def test_the_lead_is_that_of_the_two_largest_logits():
    assert prediction(0.2, 0.1, 0.7, logits=(23.5, 1.0, 24.0)).lead == 0.5
    assert prediction(0.5, 0.5).lead == 0.0


def test_one_number_that_is_not_finite_spoils_a_prediction():
    assert prediction(0.2, 0.8).is_finite
    assert not prediction(0.2, math.nan).is_finite
