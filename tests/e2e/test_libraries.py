"""Which model libraries a command loads, and what it says where one is missing: real processes, watched."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest
from tests.conftest import STAND_INS
from tests.hub_cache import put_into_cache

if TYPE_CHECKING:
    from pathlib import Path

WAIT_S = 120
COMMIT = "0123456789abcdef0123456789abcdef01234567"
# The library's root modules that take seconds to load, or may not be installed.
HEAVY = ("torch", "transformers", "huggingface_hub", "tokenizers", "safetensors", "accelerate", "gguf", "semif_phase1")
# Runs the command in argv without a network, and tells on stdout which of the libraries were asked for, each with what
# HF_HUB_OFFLINE was then.
WATCH = f"""
import os, sys

class Watch:
    def find_spec(self, name, path=None, target=None):
        if name in {HEAVY!r}:
            print(name, os.environ.get("HF_HUB_OFFLINE"), flush=True)
            if os.environ.get("ABSENT") == name:
                raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

def refuse(event, _arguments):
    if event in {{"socket.connect", "socket.getaddrinfo", "socket.gethostbyname", "socket.sendto"}}:
        raise AssertionError(f"{{event}} without a caller")

sys.meta_path.insert(0, Watch())
sys.addaudithook(refuse)
from steelyard.cli import main
main()
"""
ROWS = [
    {
        "id": f"r{i}",
        "state": "The gate was painted.",
        "question": f"Was gate {i} painted?",
        "options": [{"id": "y", "description": "Yes"}, {"id": "n", "description": "No"}],
    }
    for i in range(3)
]


def environ_of(**changes: object) -> dict[str, str]:
    own = {name: value for name, value in os.environ.items() if not name.startswith(("SEMIF_", "HF_"))}
    return own | {name: str(value) for name, value in changes.items()}


class Score:
    """Runs `steelyard decide score` over ROWS."""

    def __init__(self, folder: Path) -> None:
        self.input, self.output = folder / "rows.jsonl", folder / "results.jsonl"
        self.input.write_text("".join(json.dumps(row) + "\n" for row in ROWS))

    def run(self, *, mode: str = "direct", **changes: object) -> subprocess.CompletedProcess[str]:
        arguments = ["decide", "score", "--mode", mode, "--input", str(self.input), "--output", str(self.output)]
        return subprocess.run(
            [sys.executable, "-c", WATCH, *arguments], env=environ_of(**changes), capture_output=True, text=True,
            check=False, timeout=WAIT_S,
        )  # fmt: skip

    def results(self) -> list[Any]:
        return [json.loads(line) for line in self.output.read_text().splitlines()]


@pytest.fixture
def score(tmp_path) -> Score:
    return Score(tmp_path)


def asked_for(output: str) -> dict[str, str]:
    """Give each library that was asked for, with what HF_HUB_OFFLINE was the first time."""
    found: dict[str, str] = {}
    for line in output.splitlines():
        name, offline = line.split()
        found.setdefault(name, offline)
    return found


def test_importing_the_whole_command_line_loads_no_model_library():
    program = f"""
import sys
from steelyard import cli
from steelyard.decide import app, batch, commands, loading, server, startup
print(sorted(set({HEAVY!r}) & set(sys.modules)))
"""
    command = [sys.executable, "-c", program]
    finished = subprocess.run(command, env=environ_of(), capture_output=True, text=True, check=True, timeout=WAIT_S)
    assert finished.stdout == "[]\n"


def test_the_fake_model_asks_for_no_model_library(score):
    finished = score.run(SEMIF_MODEL="fake")
    assert (finished.returncode, finished.stdout) == (0, ""), finished.stderr


def test_llamacpp_asks_for_no_library_of_torchs(score, weights):
    finished = score.run(SEMIF_MODEL=weights("smollm2-135m"), SEMIF_DEVICE="cpu", SEMIF_THREADS="1")
    assert (finished.returncode, finished.stdout) == (0, ""), finished.stderr
    assert len(score.results()) == 3


@pytest.mark.parametrize("mode", ["direct", pytest.param("shared", marks=pytest.mark.slow)])
def test_a_hub_model_scores_on_torch_which_is_told_to_stay_offline_before_it_loads(score, tiny_folder, tmp_path, mode):
    put_into_cache(tmp_path / "hub", tiny_folder("tiny-qwen3.5"), name="tiny-org/tiny", commit=COMMIT)
    finished = score.run(
        SEMIF_MODEL="tiny-org/tiny", SEMIF_REVISION=COMMIT, SEMIF_DEVICE="cpu", SEMIF_THREADS="1", mode=mode,
        HF_HUB_CACHE=tmp_path / "hub", HF_HUB_OFFLINE="0",
    )  # fmt: skip
    assert finished.returncode == 0, finished.stderr
    asked = asked_for(finished.stdout)
    assert asked["torch"] == asked["transformers"] == asked["huggingface_hub"] == "1"
    assert "semif_phase1" not in asked
    assert [result["id"] for result in score.results()] == ["r0", "r1", "r2"]
    assert {(r["model"]["source"], r["model"]["revision"]) for r in score.results()} == {("tiny-org/tiny", COMMIT)}


def test_semif_scores_a_batch_with_its_own_results(score, tiny_folder):
    finished = score.run(
        SEMIF_MODEL=tiny_folder("tiny-qwen2"), SEMIF_DEVICE="cpu", SEMIF_THREADS="1", SEMIF_ENGINE="semif",
        PYTHONPATH=STAND_INS, mode="shared",
    )  # fmt: skip
    assert finished.returncode == 0, finished.stderr
    assert [result["id"] for result in score.results()] == ["r0", "r1", "r2"]
    assert all(result["own_key"] == [1.5, None, {"é": True}] for result in score.results())


@pytest.mark.parametrize("absent", ["torch", pytest.param("transformers", marks=pytest.mark.slow)])
@pytest.mark.parametrize("engine", ["auto", pytest.param("semif", marks=pytest.mark.slow)])
def test_where_torch_is_not_installed_the_refusal_names_the_extra(score, tmp_path, absent, engine):
    folder = tmp_path / "model"
    folder.mkdir()
    finished = score.run(SEMIF_MODEL=folder, SEMIF_DEVICE="cpu", SEMIF_ENGINE=engine, ABSENT=absent)
    assert finished.returncode == 2
    sentence = finished.stderr.splitlines()[-1]
    assert sentence.startswith("Error: SEMIF_MODEL ")
    assert sentence.endswith(
        ": the torch engine is not installed; in a checkout of steelyard run: pip install '.[torch]' "
        f"(No module named '{absent}')"
    )
    assert "Traceback" not in finished.stderr
