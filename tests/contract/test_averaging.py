"""Order averaging and calibration over a real model's answers, recomputed here in the plainest way."""

from __future__ import annotations

import math

import pytest

from steelyard.decide.domain.direct import score_direct
from steelyard.decide.domain.plans import Rules, answers_of, plan_decide, plan_shared, rows_of
from steelyard.decide.domain.shared import score_shared

RULES = Rules(max_decisions=64, temperatures={"triage": 1.7})
STATE = "The boiler failed its pressure test. The report asks for a new valve before it is lit again."
CHOICES = [
    {"id": "safe", "description": "It may be lit"},
    {"id": "unsafe", "description": "It must stay off"},
    {"id": "unknown", "description": "The evidence does not say"},
]


@pytest.fixture(scope="module")
def engine(loaded):
    return loaded("qwen2.5-coder-0.5b")


@pytest.fixture(scope="module")
def answers(engine):
    """One decision under rotations, one plain and one under all orders, from one shared call."""
    body = {
        "state": STATE,
        "decisions": [
            {"id": "rotated", "question": "May the boiler be lit?", "options": CHOICES, "orderings": "rotations"},
            {"id": "plain", "question": "Was it tested?", "options": CHOICES[:2]},
            {"id": "all", "question": "Is a part needed?", "options": CHOICES, "orderings": "all"},
        ],
    }
    plan = plan_shared(body, rules=RULES)
    results, _timing = score_shared(rows_of(plan), engine=engine, max_tokens=4096)
    return answers_of(plan, results, rules=RULES)


def normalised(weights: list[float]) -> list[float]:
    return [weight / sum(weights) for weight in weights]


def test_answers_come_in_request_order_and_a_plain_one_stays_plain(answers):
    assert [answer["id"] for answer in answers] == ["rotated", "plain", "all"]
    assert "combined" not in answers[1]
    assert [len(answer["orderings"]) for answer in (answers[0], answers[2])] == [3, 6]


@pytest.mark.parametrize("place", [0, 2])
def test_the_combined_answer_follows_from_its_orderings(answers, place):
    answer = answers[place]
    ids, orderings, combined = answer["option_ids"], answer["orderings"], answer["combined"]
    assert ids == ["safe", "unsafe", "unknown"]
    native = [dict(zip(o["option_ids"], o["probabilities"], strict=True)) for o in orderings]
    means = [sum(math.log(probabilities[i]) for probabilities in native) / len(native) for i in ids]
    assert combined["probabilities"] == pytest.approx(normalised([math.exp(mean) for mean in means]), rel=1e-9)
    assert combined["top"] == ids[means.index(max(means))]
    tops = [max(ids, key=probabilities.__getitem__) for probabilities in native]
    assert combined["agreement"] == tops.count(combined["top"]) / len(native)
    assert combined["spread"] == {i: [min(p[i] for p in native), max(p[i] for p in native)] for i in ids}


def test_every_ordering_is_another_prompt(answers):
    hashes = [ordering["prompt_sha256"] for answer in (answers[0], answers[2]) for ordering in answer["orderings"]]
    assert len(set(hashes)) == 9


@pytest.fixture(scope="module")
def calibrated_pair(engine):
    """One direct result, and the same with a workload's calibration."""
    body = {"id": "r", "state": STATE, "question": "May it be lit?", "options": CHOICES, "workload": "triage"}
    plan = plan_decide(body, rules=RULES)
    result = score_direct(rows_of(plan)[0], engine=engine, max_tokens=4096)
    return result, answers_of(plan, [result], rules=RULES)[0]


def test_calibrated_probabilities_follow_from_the_logits(calibrated_pair):
    result, answer = calibrated_pair
    calibrated = answer.pop("calibrated")
    assert answer == result
    assert (calibrated["workload"], calibrated["temperature"]) == ("triage", 1.7)
    weights = [math.exp(logit / 1.7) for logit in result["option_logits"]]
    assert calibrated["probabilities"] == pytest.approx(normalised(weights), rel=1e-9)
    top = calibrated["probabilities"].index(max(calibrated["probabilities"]))
    assert top == result["probabilities"].index(max(result["probabilities"]))
