"""GGUF files on torch, dequantised for real: a tiny file of our own, in processes that are killed."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest
from tests import tiny_models

from steelyard.decide.domain.direct import score_direct
from steelyard.decide.engines.llama_loading import LlamaSource
from steelyard.decide.engines.llamacpp import LlamaCppEngine
from steelyard.decide.engines.torch_engine import TorchEngine
from steelyard.decide.engines.torch_loading import TorchSource
from steelyard.decide.startup import WARM_UP_ROW
from steelyard.hall.digests import sha256_of_file

if TYPE_CHECKING:
    from pathlib import Path

    from steelyard.decide.domain.ports import Engine

WAIT_S = 60
# llama.cpp keeps keys and values in FP16. Measured: 0.0015, of a probability.
LLAMACPP_GAP = 0.01
# Loads a file after a line came in, and dies where it is told to.
LOAD = """
import logging, os, signal, sys
from pathlib import Path
logging.basicConfig(level=logging.INFO, format="%(message)s")
from steelyard.decide.engines import torch_gguf
from steelyard.decide.engines.torch_engine import TorchEngine
from steelyard.decide.engines.torch_loading import TorchSource

path, converted_dir, dies_at = sys.argv[1:]

def dying(*_arguments, **_options):
    os.kill(os.getpid(), signal.SIGKILL)

if dies_at == "read_model":
    torch_gguf.read_model = dying
if dies_at == "digest":
    torch_gguf.sha256_of_file = dying
if dies_at == "rename":
    Path.rename = dying
print("ready", flush=True)
sys.stdin.readline()
source = {"name": "m", "path": Path(path), "converted_dir": Path(converted_dir)}
TorchEngine(TorchSource(**source, device="cpu", max_tokens=99, threads=1))
print("loaded", flush=True)
"""


@pytest.fixture
def file(tmp_path) -> Path:
    return tiny_models.save_gguf(tmp_path / "tiny.gguf")


@pytest.fixture
def directory(tmp_path) -> Path:
    path: Path = tmp_path / "converted"
    return path


@pytest.fixture
def load(file, directory):
    def loaded(path: Path = file, **changes: Any) -> TorchEngine:
        values = {"name": "m", "device": "cpu", "max_tokens": 4096, "converted_dir": directory, "threads": 1}
        return TorchEngine(TorchSource(path=path, **values | changes))

    return loaded


@pytest.fixture
def refusal(load):
    def refused(path: Path, **changes: Any) -> str:
        with pytest.raises(ValueError, match=r"^SEMIF_MODEL: ") as caught:
            load(path, **changes)
        text = str(caught.value)
        assert "\n" not in text
        return text

    return refused


def result_of(engine: Engine) -> dict[str, Any]:
    return score_direct(WARM_UP_ROW, engine=engine, max_tokens=4096)


def whole_folders(directory: Path) -> list[Path]:
    """Give the folders in *directory*, each of which must be whole."""
    folders = [path for path in directory.iterdir() if path.is_dir()]
    for folder in folders:
        assert not folder.name.endswith(".partial")
        recorded = json.loads((folder / "digests.json").read_text())
        assert recorded["model.safetensors"] == sha256_of_file(folder / "model.safetensors")
    return folders


def test_a_file_answers_as_the_folder_it_was_made_from(load, file, tiny_folder):
    from_file, from_folder = load(), load(tiny_folder("tiny-qwen2"))
    left, right = result_of(from_file), result_of(from_folder)
    assert left["prompt_sha256"] == right["prompt_sha256"]
    assert left["option_logits"] == pytest.approx(right["option_logits"], rel=1e-4)
    assert from_file.model["gguf_sha256"] == sha256_of_file(file)
    assert "gguf_sha256" not in from_folder.model


def test_a_file_answers_as_it_does_on_llamacpp(load, file):
    llamacpp = LlamaCppEngine(LlamaSource(path=file, name="m", device="cpu", max_tokens=4096, threads=1))
    left, right = result_of(load()), result_of(llamacpp)
    llamacpp.close()
    assert (left["prompt_sha256"], left["input_tokens"]) == (right["prompt_sha256"], right["input_tokens"])
    assert left["probabilities"] == pytest.approx(right["probabilities"], abs=LLAMACPP_GAP)


def test_a_second_load_finds_the_folder_and_leaves_it_alone(load, directory):
    load()
    (folder,) = whole_folders(directory)
    times = {path.name: path.stat().st_mtime_ns for path in folder.iterdir()}
    load()
    assert {path.name: path.stat().st_mtime_ns for path in folder.iterdir()} == times


def test_damaged_weights_are_made_again(load, directory):
    fresh = result_of(load())["option_logits"]
    (folder,) = whole_folders(directory)
    weights = folder / "model.safetensors"
    content = weights.read_bytes()
    weights.write_bytes(content[:-100] + bytes(100))
    assert result_of(load())["option_logits"] == pytest.approx(fresh, rel=1e-4)
    assert weights.read_bytes() == content


def start(file: Path, directory: Path, dies_at: str = "") -> subprocess.Popen[str]:
    command = [sys.executable, "-W", "error", "-c", LOAD, str(file), str(directory), dies_at]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


@pytest.mark.parametrize(
    "dies_at",
    [pytest.param("read_model", marks=pytest.mark.slow), "digest", pytest.param("rename", marks=pytest.mark.slow)],
)
def test_a_conversion_that_is_killed_leaves_nothing_that_is_taken_for_whole(load, file, directory, dies_at):
    with start(file, directory, dies_at) as process:
        output, _errors = process.communicate("\n", timeout=WAIT_S)
    assert (process.returncode, output) == (-signal.SIGKILL, "ready\n")
    left_over = [path.name for path in directory.iterdir() if path.is_dir()]
    assert all(name.endswith(".partial") for name in left_over)
    assert bool(left_over) == (dies_at != "read_model")
    assert result_of(load())
    assert len(whole_folders(directory)) == 1


def test_of_two_processes_that_start_together_one_converts(file, directory):
    with start(file, directory) as first, start(file, directory) as second:
        for process in (first, second):
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"
        for process in (first, second):
            assert process.stdin is not None
            process.stdin.write("\n")
            process.stdin.flush()
        (output, errors), (other_output, other_errors) = (p.communicate(timeout=WAIT_S) for p in (first, second))
    assert output == other_output == "loaded\n", errors + other_errors
    assert (errors + other_errors).count("this is done once") == 1
    assert len(whole_folders(directory)) == 1


# Files that are no usable model.


@pytest.mark.parametrize("content", [b"", b"GGUF", b"GGUF" + bytes(range(200)), b"<html>not found</html>", bytes(5000)])
def test_a_file_of_anything_else_is_refused(refusal, tmp_path, directory, content):
    path = tmp_path / "other.gguf"
    path.write_bytes(content)
    assert refusal(path).startswith("SEMIF_MODEL: m cannot be loaded: ")
    assert whole_folders(directory) == []


@pytest.mark.parametrize("keep", [100, 5_000, 60_000, -1])
def test_a_file_cut_short_is_refused(refusal, file, directory, keep):
    file.write_bytes(file.read_bytes()[:keep])
    assert refusal(file).startswith("SEMIF_MODEL: m cannot be loaded: ")
    assert whole_folders(directory) == []


def test_an_architecture_that_the_library_does_not_know_is_refused(refusal, tmp_path):
    path = tiny_models.save_gguf(tmp_path / "other.gguf", architecture="unheardof")
    assert "unheardof" in refusal(path)


def test_a_file_without_a_tensor_is_refused(refusal, file):
    content = file.read_bytes()
    file.write_bytes(content.replace(b"blk.1.ffn_up.weight", b"blk.1.ffn_ux.weight", 1))
    assert refusal(file).startswith("SEMIF_MODEL: m cannot be loaded: ")


def test_a_file_without_a_chat_template_is_refused(refusal, file):
    file.write_bytes(file.read_bytes().replace(b"tokenizer.chat_template", b"tokenizer.chat_templatX", 1))
    assert "the model has no chat template" in refusal(file)


def test_a_file_that_is_not_the_pinned_one_is_refused_with_both_hashes(refusal, load, file, directory):
    pin, own = "0" * 64, sha256_of_file(file)
    assert refusal(file, sha256=pin) == (
        f"SEMIF_MODEL: {file} is not m: its SHA-256 is {own}, not {pin}; "
        f"run: steelyard models pull m --models-dir {file.parent}"
    )
    assert not directory.exists()
    assert load(sha256=own).model["gguf_sha256"] == own


def test_a_directory_that_cannot_be_written_is_refused(load, file, tmp_path):
    (tmp_path / "a file").touch()
    with pytest.raises((ValueError, OSError)) as caught:
        load(converted_dir=tmp_path / "a file" / "below")
    assert "\n" not in str(caught.value)
