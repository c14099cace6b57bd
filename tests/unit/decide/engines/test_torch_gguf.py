"""When a file is dequantised, and what of it is kept and trusted. What transformers would do is faked here."""

from __future__ import annotations

import fcntl
import json
import threading
from typing import TYPE_CHECKING, Any

import pytest
import transformers

from steelyard.decide.engines import torch_gguf
from steelyard.decide.engines.torch_gguf import dequantised
from steelyard.hall.digests import sha256_of_file

if TYPE_CHECKING:
    from pathlib import Path

SHA256 = "a" * 64
WAIT_S = 10
CONTENT = {"model.safetensors": "weights", "tokenizer.json": "{}", "chat_template.jinja": "{{ messages }}"}


class Conversions:
    """Writes what a conversion writes, and remembers each."""

    def __init__(self) -> None:
        self.made: list[Path] = []
        self.error: Exception | None = None

    def __call__(self, path: Path, folder: Path) -> None:
        self.made.append(folder)
        folder.mkdir()
        (folder / "model.safetensors").write_bytes(b"weights of " + path.read_bytes())
        if self.error:
            raise self.error
        digest = sha256_of_file(folder / "model.safetensors")
        (folder / "digests.json").write_text(json.dumps({"model.safetensors": digest}))


@pytest.fixture
def conversions(monkeypatch) -> Conversions:
    own = Conversions()
    monkeypatch.setattr(torch_gguf, "_convert", own)
    return own


@pytest.fixture
def file(tmp_path) -> Path:
    path: Path = tmp_path / "m.gguf"
    path.write_bytes(b"GGUF")
    return path


@pytest.fixture
def directory(tmp_path) -> Path:
    path: Path = tmp_path / "converted" / "here"
    return path


def names_in(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.iterdir() if path.name != ".lock")


def test_a_file_is_converted_once_and_found_afterwards(conversions, file, directory):
    first = dequantised(file, sha256=SHA256, directory=directory)
    second = dequantised(file, sha256=SHA256, directory=directory)
    assert first == second
    assert len(conversions.made) == 1
    assert names_in(directory) == [first.name]
    assert first.name.startswith(SHA256)


def test_a_folder_that_is_there_needs_no_lock(conversions, file, directory, monkeypatch):
    """It may lie on a disk that is mounted read-only."""
    folder = dequantised(file, sha256=SHA256, directory=directory)

    def fail(*_arguments: object) -> None:
        raise OSError("read-only file system")

    monkeypatch.setattr(fcntl, "flock", fail)
    assert dequantised(file, sha256=SHA256, directory=directory) == folder


def test_another_file_and_another_library_version_have_folders_of_their_own(conversions, file, directory, monkeypatch):
    folders = {
        dequantised(file, sha256=SHA256, directory=directory),
        dequantised(file, sha256="b" * 64, directory=directory),
    }
    monkeypatch.setattr(transformers, "__version__", "5.99.0")
    folders.add(dequantised(file, sha256=SHA256, directory=directory))
    assert len(folders) == len(conversions.made) == 3
    assert names_in(directory) == sorted(folder.name for folder in folders)


@pytest.mark.parametrize("name", ["model.safetensors", "digests.json"])
@pytest.mark.parametrize("damage", ["changed", "emptied", "removed"])
def test_a_damaged_folder_is_converted_again(conversions, file, directory, name, damage):
    folder = dequantised(file, sha256=SHA256, directory=directory)
    whole = (folder / name).read_bytes()
    if damage == "removed":
        (folder / name).unlink()
    else:
        (folder / name).write_bytes(b"" if damage == "emptied" else whole[:-2] + b"!!")
    (folder / "left over").touch()
    assert dequantised(file, sha256=SHA256, directory=directory) == folder
    assert len(conversions.made) == 2
    assert (folder / name).read_bytes() == whole
    assert not (folder / "left over").exists()


def test_what_a_conversion_that_was_cut_off_left_is_removed(conversions, file, directory):
    for name in (f"{SHA256}-transformers-5.0.0.partial", "other.partial"):
        (directory / name).mkdir(parents=True)
        (directory / name / "model.safetensors").write_bytes(b"half")
    folder = dequantised(file, sha256=SHA256, directory=directory)
    assert names_in(directory) == [folder.name]


@pytest.mark.parametrize("error", [ValueError("no such architecture"), OSError(28, "No space left on device")])
def test_a_conversion_that_fails_leaves_nothing_and_may_be_tried_again(conversions, file, directory, error):
    conversions.error = error
    with pytest.raises(type(error)):
        dequantised(file, sha256=SHA256, directory=directory)
    assert names_in(directory) == []
    conversions.error = None
    assert dequantised(file, sha256=SHA256, directory=directory).is_dir()


def test_a_second_start_waits_for_the_first_ones_conversion_and_uses_it(
    conversions, file, directory, monkeypatch, caplog
):
    caplog.set_level("INFO")
    flock, both_asked = fcntl.flock, threading.Event()
    asked: list[object] = []

    def noticed(lock: Any, operation: int) -> None:
        asked.append(lock)
        if len(asked) == 2:
            both_asked.set()
        flock(lock, operation)

    def slow(path: Path, folder: Path) -> None:
        assert both_asked.wait(WAIT_S), "the second never came to the lock"
        conversions(path, folder)

    monkeypatch.setattr(fcntl, "flock", noticed)
    monkeypatch.setattr(torch_gguf, "_convert", slow)
    found: list[Path] = []
    starts = [
        threading.Thread(target=lambda: found.append(dequantised(file, sha256=SHA256, directory=directory)))
        for _ in range(2)
    ]
    for start in starts:
        start.start()
    for start in starts:
        start.join(WAIT_S)
    assert "Waiting for another process that is dequantising" in caplog.text
    assert len(found) == 2
    assert len(set(found)) == len(conversions.made) == 1


class StandIn:
    """A model or a tokenizer that can be saved."""

    chat_template: str | None = "x"

    def __init__(self, *names: str) -> None:
        self.names = names

    def save_pretrained(self, folder, **_options):
        folder.mkdir(exist_ok=True)
        for name in self.names:
            (folder / name).write_text(CONTENT[name], encoding="ascii")


@pytest.fixture
def read(monkeypatch):
    """Remember each file that was read to be converted."""
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


@pytest.mark.parametrize("name", CONTENT)
def test_a_file_that_was_changed_since_is_made_anew(read, convert, name):
    (convert() / name).write_text("changed", encoding="ascii")
    assert content_of(convert()) == CONTENT
    assert len(read) == 2


@pytest.mark.parametrize("name", CONTENT)
def test_a_file_that_is_missing_is_made_anew(read, convert, name):
    (convert() / name).unlink()
    assert content_of(convert()) == CONTENT
    assert len(read) == 2


@pytest.mark.parametrize("name", ["adapter_config.json", "additional_chat_templates"])
def test_what_was_put_beside_its_files_goes(read, convert, name):
    folder = convert()
    if name.endswith(".json"):
        (folder / name).write_text("{}", encoding="ascii")
    else:
        (folder / name).mkdir()
    assert not (convert() / name).exists()
    assert len(read) == 2


@pytest.mark.parametrize("record", ["", "[]", "{}", '"0"', json.dumps({"model.safetensors": "0"})])
def test_a_record_that_does_not_fit_is_made_anew(read, convert, record):
    (convert() / "digests.json").write_text(record, encoding="ascii")
    assert content_of(convert()) == CONTENT
    assert len(read) == 2


def test_a_file_without_a_chat_template_is_refused_before_its_weights_are_converted(read, convert, monkeypatch):
    monkeypatch.setattr(StandIn, "chat_template", None)
    with pytest.raises(ValueError, match="the model has no chat template"):
        convert()
    assert read == []
