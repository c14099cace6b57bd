"""SemIf's results must answer the rows that were asked; what they say of them is its own business."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from tests.unit.decide.makers import row

from steelyard.decide.domain.errors import ScoringFailed
from steelyard.decide.engines.semif import SemifScorers

ROWS = [row(id="r1"), row(id="r2")]
TIMING = {"prefix_tokens": 1, "padded_suffix_tokens": 2}


def result(of, **changes):
    count = len(of["options"])
    own = {
        "id": of["id"],
        "option_ids": [option["id"] for option in of["options"]],
        "probabilities": [1 / count] * count,
        "option_logits": [0.0] * count,
        "input_tokens": 3,
    }
    return own | changes


def scorers(change):
    """Give SemIf's scorers, whose list of results is passed through *change*."""
    engine = SimpleNamespace(
        evaluated_tokens=0,
        model={},
        native_model=None,
        tokenizer=SimpleNamespace(native=None),
        guarded=lambda run: run(),
    )
    return SemifScorers(
        engine,  # type: ignore[arg-type]  # What it asks of an engine.
        score=lambda _model, _tokenizer, own, _facts, max_tokens: change([result(own)])[0],
        score_shared=lambda _model, _tokenizer, rows, _facts, max_tokens: (change([*map(result, rows)]), TIMING),
    )


def test_results_of_the_rows_pass_through_as_they_are():
    own = scorers(lambda results: [one | {"readout": "its own"} for one in results])
    assert own.score_direct(ROWS[0], max_tokens=9)["readout"] == "its own"
    results, timing = own.score_shared(ROWS, max_tokens=9)
    assert ([one["id"] for one in results], timing) == (["r1", "r2"], TIMING)


@pytest.mark.parametrize(
    "change",
    [
        lambda results: [one | {"id": "another"} for one in results],
        lambda results: [one | {"option_ids": one["option_ids"][::-1]} for one in results],
        lambda results: [one | {"probabilities": [1.0]} for one in results],
        lambda results: [one | {"option_logits": [0.0] * 9} for one in results],
    ],
)
def test_a_result_of_another_row_or_with_other_options_is_no_answer(change):
    own = scorers(change)
    with pytest.raises(ScoringFailed, match="results of other rows or options"):
        own.score_direct(ROWS[0], max_tokens=9)
    with pytest.raises(ScoringFailed, match="results of other rows or options"):
        own.score_shared(ROWS, max_tokens=9)


@pytest.mark.parametrize("change", [lambda r: r[:1], lambda r: [*r, *r], lambda r: r[::-1], lambda _results: []])
def test_results_of_fewer_more_or_swapped_rows_are_no_answer(change):
    with pytest.raises(ScoringFailed, match="results of other rows or options"):
        scorers(change).score_shared(ROWS, max_tokens=9)
