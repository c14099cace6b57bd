from __future__ import annotations

import math
from pathlib import Path

import pytest
from tests.unit.decide.makers import PieceTokenizer, ScriptedEngine

from steelyard.decide import loading, startup
from steelyard.decide.domain.errors import OutOfMemory
from steelyard.decide.engines.fake import FakeEngine
from steelyard.decide.engines.llama_loading import LlamaSource
from steelyard.decide.loading import build_engine
from steelyard.decide.settings import BadSetting, load_settings
from steelyard.decide.startup import StartRefused, check_agreement, start_engine, warm_up


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


@pytest.mark.parametrize("engine", ["torch", "llamacpp", "semif"])
def test_the_fake_model_has_no_other_engine(engine):
    assert refusal(model="fake", engine=engine).startswith(f"SEMIF_ENGINE {engine} ")


def test_another_hub_id_without_a_revision_of_its_own_is_refused():
    text = "SEMIF_REVISION is required for some-org/model.v2: set it to the exact commit to load"
    assert refusal(model="some-org/model.v2") == text


@pytest.mark.parametrize("name", ["absent.gguf", "absent.GGUF"])
def test_a_file_that_is_none_is_refused(tmp_path, name):
    assert refusal(model=str(tmp_path / name)).endswith(f"{name} does not exist or is no file")


def test_an_unknown_name_is_refused_with_the_known_ones():
    assert refusal(model="smollm") == (
        "SEMIF_MODEL smollm is no hub id, folder, .gguf file or known name; names: embedded, qwen2.5-coder-1.5b, "
        "qwen2.5-coder-0.5b, smollm2-135m, fake"
    )


@pytest.mark.parametrize(("model", "name"), [("embedded", "qwen2.5-coder-1.5b"), ("smollm2-135m", "smollm2-135m")])
def test_a_model_that_is_not_pulled_is_refused_with_the_command_that_pulls_it(tmp_path, model, name):
    text = refusal(model=model, models_dir=str(tmp_path))
    assert text == (
        f"SEMIF_MODEL {model} is not pulled, it is not in {tmp_path}; "
        f"run: steelyard models pull {name} --models-dir {tmp_path}"
    )


@pytest.mark.parametrize("model", ["smollm2-135m", "own.gguf"])
def test_a_revision_for_a_single_file_is_refused(tmp_path, monkeypatch, model):
    monkeypatch.chdir(tmp_path)
    for name in ("own.gguf", "SmolLM2-135M-Instruct.Q4_1.gguf"):
        (tmp_path / name).touch()
    text = refusal(model=model, models_dir=str(tmp_path), revision="deadbeef")
    assert text == f"SEMIF_REVISION is for hub ids; {model} lies on this machine, so unset it"


def test_an_account_without_a_home_is_refused_in_words(monkeypatch):
    def homeless():
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setattr(Path, "home", homeless)
    with pytest.raises(StartRefused, match="This account has no home directory to keep weights in: set SEMIF_MODELS"):
        start_engine(settings(model="embedded"), environ={})


def source_of(monkeypatch, **environ):
    """Give what the llama.cpp engine would be asked to load."""
    monkeypatch.setattr(loading, "LlamaCppEngine", lambda source: source)
    return build_engine(settings(**environ), environ={})


def test_a_pulled_model_is_loaded_with_its_pin(tmp_path, monkeypatch):
    path = tmp_path / "SmolLM2-135M-Instruct.Q4_1.gguf"
    path.touch()
    source = source_of(monkeypatch, model="smollm2-135m", models_dir=str(tmp_path), device="cpu", max_tokens="99")
    assert source == LlamaSource(
        path=path, name="smollm2-135m", device="cpu", max_tokens=99,
        sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53", revision=None,
    )  # fmt: skip


def test_an_operators_own_file_is_loaded_without_a_pin(tmp_path, monkeypatch):
    (tmp_path / "own.GGUF").touch()
    source = source_of(monkeypatch, model=str(tmp_path / "own.GGUF"))
    assert (source.path, source.sha256, source.revision) == (tmp_path / "own.GGUF", None, None)
    assert (source.device, source.max_tokens) == ("cuda", 4096)


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (ImportError("the llamacpp engine is not installed"), "SEMIF_MODEL fake: the llamacpp engine is not installed"),
        (ValueError("SEMIF_DEVICE is cuda, but"), "SEMIF_DEVICE is cuda, but"),
        (RuntimeError("the model's chat template failed: x"), "the model's chat template failed: x"),
        (OSError("disk"), "SEMIF_MODEL fake cannot be read: disk"),
        (PermissionError(13, "Permission denied"), "SEMIF_MODEL fake cannot be read: Permission denied"),
        (MemoryError(), "there was no memory for the model"),
    ],
)
def test_a_model_that_does_not_load_refuses_the_start_in_one_sentence(builds, error, text):
    builds(error)
    with pytest.raises(StartRefused) as caught:
        start_engine(settings(model="fake"), environ={})
    assert str(caught.value) == text
    assert caught.value.__suppress_context__


def test_a_cap_that_the_engine_cannot_enforce_refuses_the_start():
    assert refusal(model="fake", vram_cap_gib="4") == (
        "SEMIF_VRAM_CAP_GIB is set, but the fake engine cannot enforce a cap; unset it, or use the torch engine on a "
        "card"
    )


@pytest.mark.parametrize("error", [RuntimeError("no kernel image"), KeyError("x"), OutOfMemory("OOM")])
def test_a_warm_up_that_does_not_score_refuses_the_start_and_unloads(builds, error):
    def fail(_tokens, _slots):
        raise error

    engine = builds(ScriptedEngine(logits_of=fail))
    with pytest.raises((StartRefused, OutOfMemory)) as caught:
        start_engine(settings(model="fake"), environ={})
    assert isinstance(caught.value, StartRefused), "the command does not show this as a sentence"
    assert engine.is_closed


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
    assert text.startswith("the scripted engine scores the warm-up row differently alone and after a shared state")
    assert "beyond its tolerance of 0.0; this model or library version is not usable" in text
    assert engine.is_closed


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
