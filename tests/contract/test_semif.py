"""SemIf's own scorers behind our engine, on a tiny real model; the package is a stand-in with the same interface."""

from __future__ import annotations

import gc
import sys
from dataclasses import replace
from types import ModuleType
from typing import TYPE_CHECKING, Any

import pytest

from steelyard.decide.domain.direct import score_direct
from steelyard.decide.domain.errors import InvalidRequest, OutOfMemory, ScoringFailed
from steelyard.decide.domain.prompt import SEMIF_COMMIT
from steelyard.decide.domain.rows import Option, Row
from steelyard.decide.domain.shared import score_shared
from steelyard.decide.settings import load_settings
from steelyard.decide.startup import StartRefused, start_engine

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from steelyard.decide.domain.ports import Engine

LIMIT = 4000
CHOICES = (Option(id="y", description="Yes, it was"), Option(id="n", description="No, it was not"))
ROWS = [
    Row(id=f"r{i}", state={"gate": ["painted", i // 9]}, question=f"Was gate {i} painted?", options=CHOICES)
    for i in range(3)
]


@pytest.fixture
def start(tiny_folder) -> Callable[..., Engine]:
    def started(*, engine: str = "semif") -> Engine:
        environ = {"model": str(tiny_folder("tiny-qwen2")), "device": "cpu", "threads": "1", "engine": engine}
        settings = load_settings({f"SEMIF_{name.upper()}": text for name, text in environ.items()}, needs_token=False)
        return start_engine(settings, environ={"HOME": "/nowhere"})

    return started


@pytest.fixture
def engine(semif, start) -> Iterator[Engine]:
    own = start()
    semif.called.clear()
    yield own
    own.close()


def both(row: Row, engine: Engine) -> list[Callable[[], object]]:
    return [
        lambda: score_direct(row, engine=engine, max_tokens=LIMIT),
        lambda: score_shared([row], engine=engine, max_tokens=LIMIT),
    ]


def test_a_direct_result_is_the_very_one_that_semif_returned(engine, semif):
    result = score_direct(ROWS[0], engine=engine, max_tokens=LIMIT)
    assert result is semif.returned[-1]
    assert result["own_key"] == [1.5, None, {"é": True}]
    assert result["model"] == engine.model


def test_shared_results_and_their_timing_are_the_very_ones_that_semif_returned(engine, semif):
    results, timing = score_shared(ROWS, engine=engine, max_tokens=LIMIT)
    assert results is semif.returned[-1][0]
    assert timing is semif.returned[-1][1]
    assert [result["id"] for result in results] == ["r0", "r1", "r2"]


def test_semif_gets_the_callers_row_and_limit_and_nothing_else(engine, semif):
    score_direct(ROWS[0], engine=engine, max_tokens=77_777)
    score_shared(ROWS[:2], engine=engine, max_tokens=88_888)
    options = [{"id": "y", "description": "Yes, it was"}, {"id": "n", "description": "No, it was not"}]
    as_semif = [{"id": row.id, "state": row.state, "question": row.question, "options": options} for row in ROWS[:2]]
    assert semif.called == [("score", as_semif[0], 77_777), ("score_shared", as_semif, 88_888)]


def test_what_semif_writes_into_its_metadata_stays_out_of_the_engines_facts(engine, semif):
    before = dict(engine.model)
    score_direct(ROWS[0], engine=engine, max_tokens=LIMIT)["model"]["own"] = 1  # type: ignore[index]
    assert engine.model == before


def test_evaluated_tokens_are_counted_for_both_scorers(engine):
    before = engine.evaluated_tokens
    result = score_direct(ROWS[0], engine=engine, max_tokens=LIMIT)
    assert engine.evaluated_tokens - before == result["input_tokens"]
    before = engine.evaluated_tokens
    _results, timing = score_shared(ROWS, engine=engine, max_tokens=LIMIT)
    assert engine.evaluated_tokens - before == timing["prefix_tokens"] + timing["padded_suffix_tokens"] > 0


def test_the_model_really_answers(engine):
    one, other = (score_direct(replace(ROWS[0], state=state), engine=engine, max_tokens=LIMIT) for state in ("x", "y"))
    assert one["option_logits"] != other["option_logits"]
    (shared,), _timing = score_shared([replace(ROWS[0], state="x")], engine=engine, max_tokens=LIMIT)
    assert shared["option_logits"] == pytest.approx(one["option_logits"], rel=1e-4)


def test_its_value_errors_are_invalid_requests_with_the_same_text(engine):
    count = score_direct(ROWS[0], engine=engine, max_tokens=LIMIT)["input_tokens"]
    before = engine.evaluated_tokens
    with pytest.raises(InvalidRequest) as caught:
        score_direct(ROWS[0], engine=engine, max_tokens=count - 1)  # type: ignore[operator]  # An integer.
    assert str(caught.value) == f"Row r0: {count} input tokens exceed limit {count - 1}; no truncation allowed"  # type: ignore[operator]
    with pytest.raises(InvalidRequest, match=r"^Shared scoring requires one nonempty exact state$"):
        score_shared([ROWS[0], replace(ROWS[1], state="other")], engine=engine, max_tokens=LIMIT)
    assert engine.evaluated_tokens == before


def test_a_text_that_quotes_much_of_the_row_is_shortened(engine):
    with pytest.raises(InvalidRequest) as caught:
        score_direct(replace(ROWS[0], id="x" * 5000), engine=engine, max_tokens=5)
    assert len(str(caught.value)) < 600


@pytest.mark.parametrize("place", [0, 1], ids=["direct", "shared"])
def test_scores_that_are_not_finite_are_the_models_fault_and_not_the_callers(engine, semif, place):
    with pytest.raises(ScoringFailed, match=r"^The model gave a logit that is not finite; nothing was decided$"):
        both(replace(ROWS[0], state=semif.NAN), engine)[place]()


@pytest.mark.parametrize("place", [0, 1], ids=["direct", "shared"])
def test_out_of_memory_is_ours_unchained_and_nothing_is_held(engine, semif, place):
    gc.disable()
    try:
        with pytest.raises(OutOfMemory) as caught:
            both(replace(ROWS[0], state=semif.OUT_OF_MEMORY), engine)[place]()
        assert (caught.value.__cause__, caught.value.__context__) == (None, None)
        assert [reference() for reference in semif.held] == [None]
    finally:
        gc.enable()
    assert str(caught.value) == "CUDA out of memory. Tried to allocate"
    assert score_direct(ROWS[0], engine=engine, max_tokens=LIMIT)


def test_any_other_failure_passes_as_it_is(engine, semif):
    with pytest.raises(RuntimeError, match="illegal memory access"):
        score_direct(replace(ROWS[0], state=semif.FAILURE), engine=engine, max_tokens=LIMIT)


def test_the_warm_up_rows_are_scored_by_semif_direct_and_shared(semif, start):
    engine = start()
    assert engine.traits.name == "semif"
    assert [name for name, _rows, _limit in semif.called] == ["score", "score", "score", "score_shared"]


def test_a_semif_that_ignores_its_prefilled_state_refuses_the_start(semif, start, monkeypatch):
    shared: Any = sys.modules["semif_phase1.shared"]
    score_shared_of_stand_in = shared.score_shared

    def forgetful(*arguments: Any, **named: Any) -> Any:
        results, timing = score_shared_of_stand_in(*arguments, **named)
        return [result | {"probabilities": result["probabilities"][::-1]} for result in results], timing

    monkeypatch.setattr(shared, "score_shared", forgetful)
    with pytest.raises(StartRefused, match="the semif engine scores the warm-up rows differently alone"):
        start()


def test_auto_picks_torch_though_semif_is_installed(semif, start):
    assert start(engine="auto").traits.name == "torch"
    assert semif.called == []


@pytest.mark.parametrize("parts", [None, []], ids=["not installed", "another package of that name"])
def test_without_semif_the_start_is_refused_in_one_sentence(monkeypatch, start, parts):
    monkeypatch.setitem(sys.modules, "semif_phase1", None if parts is None else ModuleType("semif_phase1"))
    with pytest.raises(StartRefused) as caught:
        start()
    text = str(caught.value)
    assert "SEMIF_ENGINE is semif, but the package semif_phase1 is not installed; install it with pip's" in text
    assert SEMIF_COMMIT in text
    assert "\n" not in text
