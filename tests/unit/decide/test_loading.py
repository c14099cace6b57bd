"""Which weights SEMIF_MODEL means, and which engine they go to. Nothing is loaded here."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from steelyard.decide import loading
from steelyard.decide.engines import semif, torch_engine
from steelyard.decide.engines.llama_loading import LlamaSource
from steelyard.decide.engines.torch_loading import TorchSource
from steelyard.decide.loading import build_engine
from steelyard.decide.settings import DEFAULT_REVISION, load_settings
from steelyard.hall.settings import BadSetting
from steelyard.models.errors import ModelsError

if TYPE_CHECKING:
    from collections.abc import Callable

COMMIT = "0123456789abcdef0123456789abcdef01234567"


def settings(**environ: str):
    return load_settings({f"SEMIF_{name.upper()}": text for name, text in environ.items()}, needs_token=False)


def refusal(**environ: str) -> str:
    with pytest.raises(BadSetting) as caught:
        build_engine(settings(**environ), environ={"HOME": "/nowhere"})
    text = str(caught.value)
    assert "\n" not in text
    return text


@pytest.fixture
def built(monkeypatch) -> Callable[..., Any]:
    """Give which engine would be built and what it would be asked to load."""
    monkeypatch.setattr(loading, "LlamaCppEngine", lambda source: ("llamacpp", source))
    monkeypatch.setattr(torch_engine, "TorchEngine", lambda source: ("torch", source))
    monkeypatch.setattr(semif, "SemifEngine", lambda source: ("semif", source))

    def build(**environ: str) -> Any:
        return build_engine(settings(**environ), environ={"HOME": "/home/me"})

    return build


@pytest.fixture
def places(tmp_path, monkeypatch) -> Path:
    """A working directory with a folder, a folder at a hub id's place, a file, and a file without a known ending."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "folder").mkdir()
    (tmp_path / "org" / "model").mkdir(parents=True)
    (tmp_path / "org" / "own.gguf").touch()
    (tmp_path / "folder.gguf").mkdir()
    path: Path = tmp_path
    return path


# What is found.


@pytest.mark.parametrize("engine", ["torch", "llamacpp", "semif"])
def test_the_fake_model_has_no_other_engine(engine):
    assert refusal(model="fake", engine=engine).startswith(f"SEMIF_ENGINE {engine} ")


def test_another_hub_id_without_a_revision_of_its_own_is_refused():
    text = "SEMIF_REVISION is required for some-org/model.v2: set it to the exact commit to load"
    assert refusal(model="some-org/model.v2") == text


@pytest.mark.parametrize("name", ["absent.gguf", "absent.GGUF"])
def test_a_file_that_is_none_is_refused(tmp_path, name):
    assert refusal(model=str(tmp_path / name)).endswith(f"{name} does not exist or is no file")


def test_an_embedding_model_is_sent_to_its_own_server():
    assert refusal(model="all-minilm-l6-v2-int8") == (
        "SEMIF_MODEL all-minilm-l6-v2-int8 is an embedding model; serve it with: steelyard embed serve"
    )


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
    with pytest.raises(ModelsError, match="This account has no home directory to keep weights in: set SEMIF_MODELS"):
        build_engine(settings(model="embedded"), environ={})


def test_a_pulled_model_is_loaded_with_its_pin(tmp_path, built):
    path = tmp_path / "SmolLM2-135M-Instruct.Q4_1.gguf"
    path.touch()
    engine, source = built(model="smollm2-135m", models_dir=str(tmp_path), device="cpu", max_tokens="99")
    assert engine == "llamacpp"
    assert source == LlamaSource(
        path=path, name="smollm2-135m", device="cpu", max_tokens=99,
        sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53", revision=None,
    )  # fmt: skip


def test_an_operators_own_file_is_loaded_without_a_pin(tmp_path, built):
    (tmp_path / "own.GGUF").touch()
    engine, source = built(model=str(tmp_path / "own.GGUF"))
    assert engine == "llamacpp"
    assert (source.path, source.sha256, source.revision) == (tmp_path / "own.GGUF", None, None)
    assert (source.device, source.max_tokens) == ("cuda", 4096)


# Which engine.


@pytest.mark.parametrize(
    ("model", "revision", "engine"),
    [
        ("Qwen/Qwen3.5-4B", None, "torch"),
        ("some-org/model", COMMIT, "torch"),
        ("folder", None, "torch"),
        ("folder.gguf", None, "torch"),
        ("org/model", None, "torch"),
        ("org/own.gguf", None, "llamacpp"),
    ],
)
def test_auto_follows_the_model_and_never_picks_semif(places, built, model, revision, engine):
    own = {} if revision is None else {"revision": revision}
    assert built(model=model, **own)[0] == engine
    assert built(model=model, engine="auto", **own)[0] == engine


@pytest.mark.parametrize("engine", ["torch", "semif"])
@pytest.mark.parametrize("model", ["Qwen/Qwen3.5-4B", "folder", "org/own.gguf"])
def test_an_engine_that_is_named_is_used(places, built, model, engine):
    assert built(model=model, engine=engine)[0] == engine


@pytest.mark.parametrize("model", ["Qwen/Qwen3.5-4B", "folder", "org/model"])
def test_llamacpp_refuses_what_is_no_gguf_file(places, model):
    assert refusal(model=model, engine="llamacpp") == (
        f"SEMIF_ENGINE llamacpp reads .gguf files and pulled models; {model} needs SEMIF_ENGINE=torch"
    )


# What the torch engine is asked to load.


def test_the_default_model_is_asked_for_at_its_pinned_commit(built):
    assert built() == (
        "torch",
        TorchSource(
            name="Qwen/Qwen3.5-4B", path=None, device="cuda", max_tokens=4096, revision=DEFAULT_REVISION,
            converted_dir=Path("/home/me/.cache/steelyard/models/dequantised"),
        ),
    )  # fmt: skip


def test_the_settings_reach_the_torch_engine(tmp_path, built):
    folder = tmp_path / "model"
    folder.mkdir()
    engine, source = built(
        model=str(folder), vram_cap_gib="6.5", max_tokens="99", threads="3", models_dir=str(tmp_path / "pulled")
    )
    assert engine == "torch"
    assert source == TorchSource(
        name=str(folder), path=folder, device="cuda", max_tokens=99, cap_gib=6.5, threads=3,
        converted_dir=tmp_path / "pulled" / "dequantised",
    )  # fmt: skip


def test_a_pulled_model_on_torch_keeps_its_pin(tmp_path, built):
    path = tmp_path / "SmolLM2-135M-Instruct.Q4_1.gguf"
    path.touch()
    _engine, source = built(model="smollm2-135m", models_dir=str(tmp_path), engine="torch", device="cpu")
    assert (source.path, source.name) == (path, "smollm2-135m")
    assert source.sha256 == "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"


def test_a_folder_at_a_hub_ids_place_is_meant_only_without_a_revision(places, built):
    assert built(model="org/model")[1].path == Path("org/model")
    _engine, source = built(model="org/model", revision=COMMIT)
    assert (source.path, source.name, source.revision) == (None, "org/model", COMMIT)


def test_a_folder_at_the_default_models_place_is_not_the_default_model(places, built):
    (places / "Qwen" / "Qwen3.5-4B").mkdir(parents=True)
    assert built()[1].path is None


@pytest.mark.parametrize("model", ["./folder", "folder/", "/tmp/../tmp", "./org/model"])
def test_a_revision_for_a_folder_is_refused(places, model):
    text = f"SEMIF_REVISION is for hub ids; {model} lies on this machine, so unset it"
    assert refusal(model=model, revision=COMMIT) == text


@pytest.mark.parametrize("model", ["a/b/c", "a/", "/a", "a b/c", "org/mödel", "../x", "C:\\x", "folder/nothing.txt/x"])
def test_what_is_no_hub_id_and_no_folder_is_refused(places, model):
    assert "is no hub id, folder, .gguf file or known name" in refusal(model=model, revision=COMMIT)


# Caps.


@pytest.mark.parametrize("engine", ["llamacpp", "torch", "semif"])
def test_a_cap_that_the_engine_cannot_enforce_is_refused_before_anything_is_loaded(tmp_path, built, engine):
    (tmp_path / "own.gguf").touch()
    where = "" if engine == "llamacpp" else " on a CPU"
    with pytest.raises(BadSetting) as caught:
        built(model=str(tmp_path / "own.gguf"), engine=engine, device="cpu", vram_cap_gib="4")
    assert str(caught.value) == (
        f"SEMIF_VRAM_CAP_GIB is set, but the {engine} engine cannot enforce a cap{where}; unset it, or use the torch "
        "engine on a card"
    )


def test_the_fake_model_has_no_card_to_cap():
    assert refusal(model="fake", vram_cap_gib="4") == (
        "SEMIF_VRAM_CAP_GIB is set, but the fake engine cannot enforce a cap; unset it, or use the torch engine on a "
        "card"
    )
