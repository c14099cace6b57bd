"""Which files a name means; what is inside them is the contract suite's business."""

from __future__ import annotations

import hashlib
import json

import pytest

from steelyard.embed.loading import IDENTITIES, build_runtime, find_files
from steelyard.embed.settings import load_settings
from steelyard.hall.settings import BadSetting
from steelyard.models import catalogue, store
from steelyard.models.catalogue import Kind

DESCRIPTION = {"dimension": 4, "pooling": "mean", "max_tokens": 8, "output": "out"}


def settings_of(model, **values):
    environ = {"STEELYARD_EMBED_API_TOKEN": "t" * 32, "STEELYARD_EMBED_MODEL": str(model)}
    return load_settings(environ | {f"STEELYARD_EMBED_{name.upper()}": str(value) for name, value in values.items()})


@pytest.fixture
def folder(tmp_path):
    """A folder with a model's three files, which hold nothing that could be loaded."""
    folder = tmp_path / "own-model"
    folder.mkdir()
    (folder / "model.onnx").write_bytes(b"model")
    (folder / "tokenizer.json").write_text("{}")
    (folder / "embedding.json").write_text(json.dumps(DESCRIPTION))
    return folder


def test_every_pullable_embedding_model_has_an_identity():
    assert set(IDENTITIES) == {model.name for model in catalogue.of_kind(Kind.EMBEDDING)}


def test_a_pulled_name_means_its_pinned_files(tmp_path):
    model = catalogue.require("all-minilm-l6-v2-int8")
    for weights in model.files:
        path = store.path_of(weights, tmp_path)
        path.touch()
    files = find_files(settings_of(model.name, models_dir=tmp_path), environ={})
    assert files.pins == {store.path_of(weights, tmp_path): weights.sha256 for weights in model.files}
    assert (files.model.suffix, files.tokenizer.suffix) == (".onnx", ".json")
    with pytest.raises(BadSetting, match=r"\.onnx is not the file that it should be: expected SHA-256 8199be6f"):
        build_runtime(settings_of(model.name, models_dir=tmp_path), environ={})


def test_a_name_that_is_not_pulled_says_how_to_pull_it(tmp_path):
    with pytest.raises(
        BadSetting, match=r"is not pulled.*run: steelyard models pull all-minilm-l6-v2-int8 --models-dir"
    ):
        find_files(settings_of("all-minilm-l6-v2-int8", models_dir=tmp_path), environ={})
    with pytest.raises(BadSetting, match=r"run: steelyard models pull all-minilm-l6-v2-int8$"):
        find_files(settings_of("all-minilm-l6-v2-int8"), environ={"SEMIF_MODELS_DIR": str(tmp_path)})


def test_a_decision_model_is_sent_to_its_own_server():
    with pytest.raises(BadSetting, match="is a decision model; serve it with: steelyard decide serve"):
        find_files(settings_of("smollm2-135m"), environ={})


def test_an_unknown_name_lists_the_known_ones():
    with pytest.raises(BadSetting, match="no folder and no known name; names: all-minilm-l6-v2-int8, paraphrase"):
        find_files(settings_of("no-such-model"), environ={})


def test_a_folder_is_described_by_its_own_file(folder):
    files = find_files(settings_of(folder), environ={})
    assert (files.identity.model, files.identity.max_tokens) == ("own-model", 8)
    assert (files.model, files.tokenizer, files.pins) == (folder / "model.onnx", folder / "tokenizer.json", {})


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("{", "is not JSON"),
        ("\udcff", "is not JSON"),
        ("[" * 100_000, "is nested too deeply"),
        ("{}", "must give `dimension`"),
        (None, "cannot be read: No such file or directory"),
    ],
)
def test_a_folder_without_a_right_description_is_refused(folder, content, message):
    (folder / "embedding.json").unlink()
    if content is not None:
        (folder / "embedding.json").write_bytes(content.encode("utf-8", "surrogateescape"))
    with pytest.raises(BadSetting, match=rf"embedding\.json {message}"):
        find_files(settings_of(folder), environ={})


def test_a_folder_may_pin_its_files(folder):
    (folder / "embedding.json").write_text(json.dumps({**DESCRIPTION, "sha256": {"tokenizer.json": "0" * 64}}))
    right = hashlib.sha256(b"{}").hexdigest()
    with pytest.raises(BadSetting, match=rf"tokenizer\.json is not the file that it should be.*got {right}"):
        build_runtime(settings_of(folder), environ={})


def test_a_missing_runtime_says_what_to_install(folder, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "steelyard.embed.runtimes.onnx", None)
    with pytest.raises(ImportError, match=r"pip install '\.\[embed\]'"):
        build_runtime(settings_of(folder), environ={})
