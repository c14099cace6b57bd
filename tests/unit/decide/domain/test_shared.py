from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from tests.unit.decide.makers import PieceTokenizer, ScriptedEngine, options, row

from steelyard.decide.domain.direct import score_direct
from steelyard.decide.domain.errors import InvalidRequest, OutOfMemory, ScoringFailed
from steelyard.decide.domain.prompt import encode_row
from steelyard.decide.domain.shared import score_shared, shared_prefix_length

if TYPE_CHECKING:
    from collections.abc import Sequence

LIMIT = 10_000
SHARED_KEYS = [
    "id", "option_ids", "probabilities", "option_logits", "input_tokens", "prompt_sha256", "prompt_version", "model",
    "readout", "probability_status",
]  # fmt: skip
TIMING_KEYS = [
    "total_seconds", "encode_seconds", "prefix_tokens", "prefill_seconds", "replicate_seconds",
    "suffix_forward_seconds", "batch_size", "true_suffix_tokens", "padded_suffix_tokens",
]  # fmt: skip
ONE_STATE = "Shared scoring requires one nonempty exact state"


def rows(count: int, **changes):
    return [row(id=f"r{i}", question=f"{i}: can the lift be used?", **changes) for i in range(count)]


def prompts(*own, tokenizer=None):
    return [encode_row(r, tokenizer=tokenizer or PieceTokenizer(), max_tokens=LIMIT) for r in own]


def refusal(own, engine=None) -> str:
    engine = engine or ScriptedEngine()
    with pytest.raises(InvalidRequest) as caught:
        score_shared(own, engine=engine, max_tokens=LIMIT)
    assert engine.evaluated_tokens == 0, "a rule was checked only after a forward pass"
    return str(caught.value)


def prefix_text(*own, tokenizer):
    made = prompts(*own, tokenizer=tokenizer)
    return tokenizer.decode(made[0].tokens[: shared_prefix_length(made, tokenizer=tokenizer)])


def test_a_shared_result_is_the_direct_one_without_seconds_and_with_its_own_readout_and_serving_config():
    engine = ScriptedEngine()
    own = rows(3)
    results, _timing = score_shared(own, engine=engine, max_tokens=LIMIT)
    assert [list(result) for result in results] == [SHARED_KEYS] * 3
    for r, result in zip(own, results, strict=True):
        direct = score_direct(r, engine=engine, max_tokens=LIMIT)
        assert result == {
            **{key: value for key, value in direct.items() if not key.endswith("_seconds")},
            "readout": "native selected suffix-position logits",
            "model": {"source": "scripted", "revision": None, "serving_config": {"engine": "scripted"}},
        }


def test_the_timing_has_the_contracts_keys_in_order():
    engine = ScriptedEngine()
    results, timing = score_shared(rows(3), engine=engine, max_tokens=LIMIT)
    assert list(timing) == TIMING_KEYS
    assert timing["total_seconds"] >= timing["encode_seconds"] + timing["prefill_seconds"] >= 0
    suffixes = sum(int(str(result["input_tokens"])) - timing["prefix_tokens"] for result in results)
    assert timing["true_suffix_tokens"] == suffixes


def test_seconds_and_padded_tokens_add_up_over_the_batches():
    """Rows of one length and one longer: the engine pads each batch to its longest row."""
    own = [*rows(8), row(id="long", question="x" * 100)]
    _results, timing = score_shared(own, engine=ScriptedEngine(), max_tokens=LIMIT)
    lengths = [len(prompt.tokens) - timing["prefix_tokens"] for prompt in prompts(*own)]
    assert timing["batch_size"] == 8
    assert (timing["replicate_seconds"], timing["suffix_forward_seconds"]) == (0.5, 1.0)
    assert timing["true_suffix_tokens"] == sum(lengths)
    assert timing["padded_suffix_tokens"] == sum(lengths)
    mixed = [own[-1], *own[:-1]]
    _results, timing = score_shared(mixed, engine=ScriptedEngine(), max_tokens=LIMIT)
    assert timing["padded_suffix_tokens"] == 8 * max(lengths) + min(lengths)


def test_the_prefix_goes_through_the_model_once():
    engine = ScriptedEngine()
    results, timing = score_shared(rows(20), engine=engine, max_tokens=LIMIT)
    assert engine.evaluated_tokens == timing["prefix_tokens"]
    assert len(engine.prefixes) == 1
    assert len(results) == 20


def test_the_prefix_is_the_longest_that_the_prompts_share():
    tokenizer = PieceTokenizer()
    text = prefix_text(row(id="a", question="Same start, then this"), row(id="b", question="Same start, or that"),
                       tokenizer=tokenizer)  # fmt: skip
    assert text.endswith('"criterion": "Same start, ')


def test_a_token_that_merges_what_differs_is_not_shared():
    tokenizer = PieceTokenizer("t, then")
    text = prefix_text(row(id="a", question="Same start, then this"), row(id="b", question="Same start, or that"),
                       tokenizer=tokenizer)  # fmt: skip
    assert text.endswith('"criterion": "Same star')


def test_one_row_shares_its_prompt_up_to_the_evidence():
    assert prefix_text(row(state="S."), tokenizer=PieceTokenizer()).endswith('{"evidence": "S."')
    assert prefix_text(row(state=["S", 1]), tokenizer=PieceTokenizer()).endswith('{"evidence": ["S", 1]')


def test_one_row_does_not_share_a_token_that_merges_with_what_follows_the_evidence():
    assert prefix_text(row(state="S."), tokenizer=PieceTokenizer('.", "')).endswith('{"evidence": "S')


def test_one_row_under_a_template_that_rewrites_it_shares_all_but_its_last_token():
    class Rewriting(PieceTokenizer):
        def render(self, messages):
            return super().render(messages).upper()

    tokenizer = Rewriting()
    made = prompts(row(), tokenizer=tokenizer)
    assert shared_prefix_length(made, tokenizer=tokenizer) == len(made[0].tokens) - 1


def test_equal_rows_leave_each_a_token_of_its_own():
    made = prompts(row(id="a"), row(id="b"))
    assert shared_prefix_length(made, tokenizer=PieceTokenizer()) == len(made[0].tokens) - 1
    engine = ScriptedEngine()
    results, timing = score_shared([row(id="a"), row(id="b")], engine=engine, max_tokens=LIMIT)
    assert timing["true_suffix_tokens"] == 2
    assert results[0]["option_logits"] == results[1]["option_logits"]


def test_a_prompt_that_is_the_start_of_another_keeps_its_last_token():
    short, *_ = prompts(row())
    long = replace(short, tokens=[*short.tokens, 7, 8])
    for pair in ([short, long], [long, short]):
        assert shared_prefix_length(pair, tokenizer=PieceTokenizer()) == len(short.tokens) - 1


def test_options_alone_may_differ():
    own = [row(id="a", options=options("red", "green")), row(id="b", options=options("red", "blue", "grey"))]
    text = prefix_text(*own, tokenizer=PieceTokenizer())
    assert text.endswith('{"letter": "B", "description": "')
    results, _timing = score_shared(own, engine=ScriptedEngine(), max_tokens=LIMIT)
    assert [len(result["probabilities"]) for result in results] == [2, 3]  # type: ignore[arg-type]  # Lists.


@pytest.mark.parametrize(
    ("left", "right"),
    [([1], [1.0]), ([1], [True]), ([0], [False]), ({"a": 1, "b": 2}, {"b": 2, "a": 1}), ([0.0], [-0.0]), ("1", [1])],
)
def test_states_that_read_differently_are_not_one_state(left, right):
    assert refusal([row(id="a", state=left), row(id="b", state=right)]) == ONE_STATE


@pytest.mark.parametrize("state", ["S", {"a": [1, 1.0]}, ["é"]])
def test_states_that_read_the_same_are_one(state):
    own = [row(id="a", state=state), row(id="b", state=type(state)(state))]
    assert len(score_shared(own, engine=ScriptedEngine(), max_tokens=LIMIT)[0]) == 2


def test_no_rows_have_no_state():
    assert refusal([]) == ONE_STATE


def test_ids_are_unique():
    assert refusal([row(id="a"), row(id="b"), row(id="a")]) == "Decision IDs must be unique"


def test_a_tokenizer_that_cannot_pad_is_refused():
    engine = ScriptedEngine(tokenizer=PieceTokenizer(can_pad=False))
    assert refusal(rows(2), engine) == "Tokenizer requires a padding or EOS token"


def test_rules_are_checked_in_order():
    engine = ScriptedEngine(tokenizer=PieceTokenizer(can_pad=False))
    broken = [row(id="a"), row(id="a", state="other")]
    assert refusal(broken, engine) == ONE_STATE
    assert refusal(broken[:1] * 2, engine) == "Decision IDs must be unique"
    assert refusal([row(id="long", question="x" * LIMIT)], engine).startswith("Row long: ")


def test_a_row_that_is_too_long_refuses_the_call():
    long = row(id="long", question="x" * LIMIT)
    assert refusal([row(), long]).startswith("Row long: ")


def test_more_rows_than_one_pass_takes_run_in_several():
    engine = ScriptedEngine()
    results, timing = score_shared(rows(19), engine=engine, max_tokens=LIMIT)
    assert engine.batches == [8, 8, 3]
    assert timing["batch_size"] == 8
    assert [result["id"] for result in results] == [f"r{i}" for i in range(19)]


@pytest.mark.parametrize(
    ("most_rows", "batches", "batch_size"),
    [
        (8, [8, 5], 8),
        (7, [8, 4, 4, 4, 1], 4),
        (3, [8, 4, 2, 2, 2, 2, 2, 2, 1], 2),
        (1, [8, 4, 2, *[1] * 13], 1),
    ],
)
def test_a_batch_that_does_not_fit_is_halved_and_no_row_is_lost(most_rows, batches, batch_size):
    engine = ScriptedEngine(fits=lambda sizes: sizes[-1] <= most_rows)
    expected, _timing = score_shared(rows(13), engine=ScriptedEngine(), max_tokens=LIMIT)
    results, timing = score_shared(rows(13), engine=engine, max_tokens=LIMIT)
    assert results == expected
    assert engine.batches == batches
    assert timing["batch_size"] == batch_size
    assert len(engine.prefixes) == 1, "the prefix was filled again"


def test_a_last_batch_that_does_not_fit_is_halved_from_its_own_size():
    """Three rows are left of eleven: the half of three is tried next, not the half of eight."""
    engine = ScriptedEngine(fits=lambda sizes: sizes[-1] != 3)
    results, _timing = score_shared(rows(11), engine=engine, max_tokens=LIMIT)
    assert engine.batches == [8, 3, 1, 1, 1]
    assert len(results) == 11


def test_one_row_that_does_not_fit_is_out_of_memory_and_the_prefix_is_closed():
    engine = ScriptedEngine(fits=lambda _sizes: False)
    with pytest.raises(OutOfMemory, match="1 rows are too many"):
        score_shared(rows(5), engine=engine, max_tokens=LIMIT)
    assert engine.batches == [5, 2, 1]
    assert not engine.prefixes[0].is_open


def test_the_prefix_is_closed_after_a_call():
    engine = ScriptedEngine()
    score_shared(rows(2), engine=engine, max_tokens=LIMIT)
    assert [prefix.is_open for prefix in engine.prefixes] == [False]


def test_another_failure_is_not_retried_and_closes_the_prefix():
    def fail(_tokens: Sequence[int], _slots: Sequence[int]) -> list[float]:
        raise RuntimeError("device-side assert")

    engine = ScriptedEngine(logits_of=fail)
    with pytest.raises(RuntimeError, match="device-side assert"):
        score_shared(rows(5), engine=engine, max_tokens=LIMIT)
    assert engine.batches == [5]
    assert not engine.prefixes[0].is_open


def test_one_logit_that_is_not_finite_fails_the_call():
    engine = ScriptedEngine(logits_of=lambda tokens, slots: [math.nan if tokens[0] else 0.0] * len(slots))
    with pytest.raises(ScoringFailed, match="not finite"):
        score_shared(rows(2), engine=engine, max_tokens=LIMIT)
