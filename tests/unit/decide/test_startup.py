from __future__ import annotations

import math

import pytest
from tests.unit.decide.makers import PieceTokenizer, ScriptedEngine

from steelyard.decide import startup
from steelyard.decide.domain.errors import OutOfMemory
from steelyard.decide.engines.fake import FakeEngine
from steelyard.decide.settings import load_settings
from steelyard.decide.startup import StartRefused, check_agreement, start_engine, warm_up
from steelyard.hall.settings import BadSetting
from steelyard.models.errors import ModelsError


def settings(**environ: str):
    return load_settings({f"SEMIF_{name.upper()}": text for name, text in environ.items()}, needs_token=False)


def refusal(error: type[Exception] = BadSetting, **environ: str) -> str:
    with pytest.raises(error) as caught:
        start_engine(settings(**environ), environ={"HOME": "/nowhere"})
    text = str(caught.value)
    assert "\n" not in text
    return text


@pytest.fixture
def builds(monkeypatch):
    """Make `build_engine` give this engine, or raise this error."""

    def use(outcome):
        def build(_settings, *, environ):
            if isinstance(outcome, Exception):
                raise outcome
            return outcome

        monkeypatch.setattr(startup, "build_engine", build)
        return outcome

    return use


def one_answer_alone_another_shared(alone: list[float], shared: list[float]) -> ScriptedEngine:
    """Give an engine that ignores its prefilled state, as some library versions do."""
    engine = ScriptedEngine()
    engine.logits_of = lambda _tokens, _slots: shared if engine.prefixes else alone
    return engine


def test_the_fake_model_starts_without_any_device():
    engine = start_engine(settings(model="fake"), environ={})
    assert isinstance(engine, FakeEngine)
    assert engine.evaluated_tokens > 0, "it was not warmed up"


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (ImportError("the llamacpp engine is not installed"), "SEMIF_MODEL fake: the llamacpp engine is not installed"),
        (ValueError("SEMIF_DEVICE is cuda, but"), "SEMIF_DEVICE is cuda, but"),
        (RuntimeError("the model's chat template failed: x"), "the model's chat template failed: x"),
        (OSError("disk"), "SEMIF_MODEL fake cannot be read: disk"),
        (PermissionError(13, "Permission denied"), "SEMIF_MODEL fake cannot be read: Permission denied"),
        (MemoryError(), "there was no memory for the model"),
        (
            RuntimeError("CUDA error: no kernel image\nCUDA errors may be late"),
            "CUDA error: no kernel image CUDA errors may be late",
        ),
        (
            AttributeError("no attribute\n'cache'"),
            "SEMIF_MODEL fake cannot be served: AttributeError: no attribute 'cache'",
        ),
        (ModelsError("This account has no home directory"), "This account has no home directory"),
    ],
)
def test_a_model_that_does_not_load_refuses_the_start_in_one_sentence(builds, error, text):
    builds(error)
    with pytest.raises(StartRefused) as caught:
        start_engine(settings(model="fake"), environ={})
    assert str(caught.value) == text
    assert caught.value.__suppress_context__


@pytest.mark.parametrize("error", [RuntimeError("no kernel image"), KeyError("x"), OutOfMemory("OOM")])
def test_a_warm_up_that_does_not_score_refuses_the_start_and_unloads(builds, error):
    def fail(_tokens, _slots):
        raise error

    engine = builds(ScriptedEngine(logits_of=fail))
    with pytest.raises((StartRefused, OutOfMemory)) as caught:
        start_engine(settings(model="fake"), environ={})
    assert isinstance(caught.value, StartRefused), "the command does not show this as a sentence"
    assert engine.is_closed


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (RuntimeError("no kernel image\nCompile with\n  it"), "no kernel image Compile with it"),
        (KeyError(), "KeyError"),
    ],
)
def test_what_the_warm_up_says_is_shown_in_one_line(builds, error, reason):
    def fail(_tokens, _slots):
        raise error

    builds(ScriptedEngine(logits_of=fail))
    assert refusal(StartRefused, model="fake") == f"the warm-up decision does not score: {reason}"


@pytest.mark.parametrize("logits", [[math.nan, 0.0], [math.inf, 0.0]])
def test_a_model_that_gives_nan_refuses_the_start(builds, logits):
    builds(ScriptedEngine(logits_of=lambda _tokens, _slots: logits))
    with pytest.raises(StartRefused):
        start_engine(settings(model="fake"), environ={})


def test_a_tokenizer_that_cannot_take_the_warm_up_row_refuses_the_start(builds):
    builds(ScriptedEngine(tokenizer=PieceTokenizer(">A")))
    with pytest.raises(StartRefused, match="Answer boundary changes tokenization for slot A"):
        start_engine(settings(model="fake"), environ={})


def test_an_engine_that_ignores_the_prefilled_state_refuses_the_start(builds):
    engine = builds(one_answer_alone_another_shared([1.0, 0.0], [0.0, 1.0]))
    text = refusal(StartRefused, model="fake")
    assert text.startswith("the scripted engine scores the warm-up rows differently alone and after a shared state")
    assert "beyond its tolerance of 0.0; this model or library version is not usable" in text
    assert engine.is_closed


def test_an_engine_that_fails_only_the_padded_rows_of_a_batch_refuses_the_start(builds):
    """One warm-up row alone would be the longest of its batch."""
    engine = ScriptedEngine()
    prefill = engine.prefill

    def with_padding_read(tokens):
        prefix = prefill(tokens)
        score = prefix.score

        def off_for_shorter_rows(suffixes):
            scores = score(suffixes)
            width = max(len(suffix.tokens) for suffix in suffixes)
            for logits, suffix in zip(scores.logits, suffixes, strict=True):
                logits[0] += 1.0 if len(suffix.tokens) < width else 0.0
            return scores

        prefix.score = off_for_shorter_rows  # type: ignore[method-assign]
        return prefix

    engine.prefill = with_padding_read  # type: ignore[method-assign]
    builds(engine)
    assert "differently alone and after a shared state" in refusal(StartRefused, model="fake")


def test_a_chat_template_that_hides_the_row_refuses_the_start(builds):
    tokenizer = PieceTokenizer()
    tokenizer.render = lambda _messages: "the same for every row "  # type: ignore[method-assign,assignment]
    builds(ScriptedEngine(tokenizer=tokenizer))
    assert refusal(StartRefused, model="fake").startswith("the model's chat template does not show the user's message")


def test_a_gap_within_the_engines_tolerance_is_no_refusal():
    engine = one_answer_alone_another_shared([0.1, 0.0], [0.0, 0.0])
    engine.traits = engine.traits.__class__(**{**engine.traits.__dict__, "tolerance": 0.03})
    check_agreement(engine)
    engine.prefixes.clear()
    engine.traits = engine.traits.__class__(**{**engine.traits.__dict__, "tolerance": 0.02})
    with pytest.raises(StartRefused):
        check_agreement(engine)


def test_the_warm_up_row_is_no_callers_row_so_the_limit_does_not_bind_it():
    assert start_engine(settings(model="fake", max_tokens="1"), environ={}).evaluated_tokens > 1


def test_warming_up_raises_whatever_the_engine_raises():
    engine = ScriptedEngine()
    warm_up(engine)
    assert engine.evaluated_tokens > 0
    engine.forward = lambda _tokens, _slots: (_ for _ in ()).throw(RuntimeError("gone"))  # type: ignore[method-assign,assignment]
    with pytest.raises(RuntimeError, match="gone"):
        warm_up(engine)
