from __future__ import annotations

import math

import pytest
from tests.unit.decide.makers import PieceTokenizer, ScriptedEngine, row

from steelyard.decide.domain.arithmetic import softmax
from steelyard.decide.domain.direct import score_direct
from steelyard.decide.domain.errors import InvalidRequest, ScoringFailed
from steelyard.decide.domain.prompt import encode_row
from steelyard.decide.domain.results import result_of

DIRECT_KEYS = [
    "id", "option_ids", "probabilities", "option_logits", "input_tokens", "forward_seconds", "total_seconds",
    "prompt_sha256", "prompt_version", "model", "readout", "probability_status",
]  # fmt: skip


def test_a_direct_result_has_the_contracts_keys_in_order():
    engine = ScriptedEngine()
    result = score_direct(row(), engine=engine, max_tokens=10_000)
    assert list(result) == DIRECT_KEYS


def test_a_direct_result_says_what_was_scored_and_by_what():
    engine = ScriptedEngine(logits_of=lambda _tokens, _slots: [1.5, -0.25])
    result = score_direct(row(), engine=engine, max_tokens=10_000)
    prompt = encode_row(row(), tokenizer=PieceTokenizer(), max_tokens=10_000)
    seconds = (result.pop("forward_seconds"), result.pop("total_seconds"))
    assert 0 <= seconds[0] <= seconds[1]  # type: ignore[operator]  # Both are floats.
    assert result == {
        "id": "r1",
        "option_ids": ["o0", "o1"],
        "probabilities": softmax([1.5, -0.25]),
        "option_logits": [1.5, -0.25],
        "input_tokens": len(prompt.tokens),
        "prompt_sha256": prompt.sha256,
        "prompt_version": "direct-options-v1",
        "model": {"source": "scripted", "revision": None},
        "readout": "native full-vocabulary last-position logits restricted to declared answer slots",
        "probability_status": "conditional option score; uncalibrated as decision confidence",
    }


def test_direct_scoring_is_one_forward_pass_over_the_whole_prompt():
    engine = ScriptedEngine()
    result = score_direct(row(), engine=engine, max_tokens=10_000)
    assert engine.evaluated_tokens == result["input_tokens"]
    assert engine.prefixes == []


def test_a_broken_rule_is_reported_before_any_forward_pass():
    engine = ScriptedEngine()
    with pytest.raises(InvalidRequest):
        score_direct(row(), engine=engine, max_tokens=1)
    assert engine.evaluated_tokens == 0


@pytest.mark.parametrize("logits", [[math.nan, 0.0], [0.0, math.inf], [-math.inf, 0.0], [math.nan, math.nan]])
def test_a_logit_that_is_not_finite_is_a_fault_and_never_a_probability(logits):
    engine = ScriptedEngine(logits_of=lambda _tokens, _slots: logits)
    with pytest.raises(ScoringFailed, match="The model gave a logit that is not finite; nothing was decided"):
        score_direct(row(), engine=engine, max_tokens=10_000)


def test_a_results_model_is_a_copy():
    model = {"source": "x"}
    prompt = encode_row(row(), tokenizer=PieceTokenizer(), max_tokens=10_000)
    result = result_of(prompt, [0.0, 1.0], model=model, readout="r")
    model["source"] = "y"
    assert result["model"] == {"source": "x"}
