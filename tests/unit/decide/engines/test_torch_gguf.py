"""What a dequantised file's folder is trusted for, with a conversion that writes small files in no time."""

from __future__ import annotations

import json

import pytest

from steelyard.decide.engines import torch_gguf
from steelyard.decide.engines.torch_gguf import dequantised

CONTENT = {"model.safetensors": "weights", "tokenizer.json": "{}", "chat_template.jinja": "{{ messages }}"}


class StandIn:
    """A model or a tokenizer that can be saved."""

    def __init__(self, *names: str) -> None:
        self.names = names

    def save_pretrained(self, folder, **_options):
        folder.mkdir(exist_ok=True)
        for name in self.names:
            (folder / name).write_text(CONTENT[name], encoding="ascii")


@pytest.fixture
def conversions(monkeypatch):
    """Count how often a file was converted."""
    made = []

    def read_model(_folder, *, gguf_file, **_options):
        made.append(gguf_file)
        return StandIn("model.safetensors")

    monkeypatch.setattr(torch_gguf, "read_model", read_model)
    monkeypatch.setattr(
        torch_gguf, "read_tokenizer", lambda _folder, gguf_file: StandIn("tokenizer.json", "chat_template.jinja")
    )
    return made


@pytest.fixture
def convert(tmp_path):
    return lambda: dequantised(tmp_path / "m.gguf", sha256="abc", directory=tmp_path / "converted")


def content_of(folder):
    return {path.name: path.read_text(encoding="ascii") for path in folder.iterdir() if path.name in CONTENT}


def test_a_file_is_converted_once(conversions, convert):
    folder = convert()
    assert content_of(folder) == CONTENT
    assert convert() == folder
    assert conversions == ["m.gguf"]


@pytest.mark.parametrize("name", CONTENT)
def test_a_file_that_was_changed_since_is_made_anew(conversions, convert, name):
    (convert() / name).write_text("changed", encoding="ascii")
    assert content_of(convert()) == CONTENT
    assert len(conversions) == 2


@pytest.mark.parametrize("name", CONTENT)
def test_a_file_that_is_missing_is_made_anew(conversions, convert, name):
    (convert() / name).unlink()
    assert content_of(convert()) == CONTENT
    assert len(conversions) == 2


@pytest.mark.parametrize("name", ["adapter_config.json", "additional_chat_templates"])
def test_what_was_put_beside_its_files_goes(conversions, convert, name):
    folder = convert()
    if name.endswith(".json"):
        (folder / name).write_text("{}", encoding="ascii")
    else:
        (folder / name).mkdir()
    assert not (convert() / name).exists()
    assert len(conversions) == 2


@pytest.mark.parametrize("record", ["", "[]", "{}", '"0"', json.dumps({"model.safetensors": "0"})])
def test_a_record_that_does_not_fit_is_made_anew(conversions, convert, record):
    (convert() / "digests.json").write_text(record, encoding="ascii")
    assert content_of(convert()) == CONTENT
    assert len(conversions) == 2
