"""`steelyard decide accept` as an operator runs it: real processes on the fake model, a real kill."""

from __future__ import annotations

import json
import os
import pty
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

PROGRAM = "from steelyard.cli import main; main()"
PATIENCE_S = 120
ROWS = 12
CHECKS = ["parity", "noise floor", "negative control", "shared against direct", "speed", "memory"]
SHARED_DATA = Path(os.environ.get("STEELYARD_SHARED_DATA") or Path(__file__).parents[3] / "shared" / "data")


def environ(**changes: str) -> dict[str, str]:
    own = {name: value for name, value in os.environ.items() if not name.startswith("SEMIF_")}
    return own | {"SEMIF_MODEL": "fake"} | changes


def row(number: int, **changes: object) -> dict[str, object]:
    own = {
        "id": f"größe-{number} 雪",
        "state": f"Secret evidence {number // 4}.",
        "question": f"Which one is {number}?",
        "options": [{"id": name, "description": f"Name {name}"} for name in ("a", "b", "c", "ц")],
        "label": number % 4,
    }
    return own | changes


class Run:
    """Rows, a reference and an output folder, and runs over them."""

    def __init__(self, folder: Path) -> None:
        self.rows, self.reference, self.output = folder / "rows.jsonl", folder / "reference.jsonl", folder / "out"

    def write_rows(self, *rows: dict[str, object]) -> None:
        self.rows.write_text("".join(json.dumps(r, ensure_ascii=False) + "\n" for r in rows), encoding="utf-8")

    def write(self, *rows: dict[str, object]) -> None:
        """Write the rows and, as the reference, what the direct scorer says of them now."""
        self.write_rows(*rows)
        self.reference.unlink(missing_ok=True)
        arguments = ["score", "--mode", "direct", "--input", str(self.rows), "--output", str(self.reference)]
        subprocess.run(
            [sys.executable, "-c", PROGRAM, "decide", *arguments], env=environ(), check=True, capture_output=True
        )

    def command(self, *arguments: str, program: str = PROGRAM) -> list[str]:
        own = ["--rows", str(self.rows), "--reference", str(self.reference), "--output", str(self.output)]
        return [sys.executable, "-c", program, "decide", "accept", *own, *arguments]

    def run(self, *arguments: str, code: int = 0, program: str = PROGRAM, **changes: str) -> tuple[str, str]:
        """Run to the end, expect the exit code and give stdout and stderr."""
        finished = subprocess.run(
            self.command(*arguments, program=program), env=environ(**changes), capture_output=True, check=False,
            timeout=PATIENCE_S,
        )  # fmt: skip
        out, log = finished.stdout.decode(), finished.stderr.decode()
        assert finished.returncode == code, log
        assert "Traceback" not in log
        assert "Secret" not in out + log
        return out, log

    def refusal(self, *arguments: str, **options: str) -> str:
        """Expect exit code 2 and give the one sentence."""
        out, log = self.run(*arguments, code=2, **options)
        assert out == ""
        (sentence,) = (line for line in log.splitlines() if line.startswith("Error: "))
        return sentence.removeprefix("Error: ")

    def report(self) -> Any:
        return json.loads((self.output / "report.json").read_bytes())

    def passes(self) -> dict[str, bytes]:
        names = ("direct-1", "direct-2", "shuffled-rows", "shuffled", "shared")
        return {name: (self.output / f"{name}.jsonl").read_bytes() for name in names}


@pytest.fixture
def run(tmp_path):
    own = Run(tmp_path)
    own.write(*map(row, range(ROWS)))
    return own


def test_six_lines_tell_six_verdicts_and_the_report_lies_in_the_folder(run):
    out, _log = run.run()
    *lines, last = out.splitlines()
    assert [line.partition(":")[0] for line in lines] == CHECKS
    words = [line.partition(":")[2].split(":")[0].strip() for line in lines]
    assert words == ["passed", "passed", "passed", "not judged", "reported", "reported"]
    assert last == f"The report is {run.output / 'report.md'}"
    assert sorted(path.name for path in run.output.iterdir()) == [
        "direct-1.jsonl", "direct-2.jsonl", "report.json", "report.md", "report.png", "shared.jsonl",
        "shuffled-rows.jsonl", "shuffled.jsonl",
    ]  # fmt: skip
    assert [check["name"] for check in run.report()["checks"]] == CHECKS
    assert 0 < (run.output / "report.png").stat().st_size < 200_000


def test_no_path_and_no_rows_text_is_in_the_report(run):
    run.run("--no-plot")
    assert not (run.output / "report.png").exists()
    for name in ("report.json", "report.md"):
        text = (run.output / name).read_text(encoding="utf-8")
        assert str(run.rows.parent) not in text
        assert "Secret" not in text
        assert "Which one" not in text


def test_a_run_that_was_killed_goes_on_where_it_stopped(run):
    with subprocess.Popen(
        run.command("--no-plot", "--fake-seconds", "0.1"), env=environ(), stderr=subprocess.DEVNULL
    ) as process:
        _wait_for_lines(run.output / "direct-2.jsonl", count=3, process=process)
        process.kill()
        assert process.wait(PATIENCE_S) == -signal.SIGKILL
    first, second = (run.output / name for name in ("direct-1.jsonl", "direct-2.jsonl"))
    finished, begun = first.read_bytes(), second.read_bytes()
    assert 3 <= begun.count(b"\n") < ROWS
    run.run("--no-plot")
    assert first.read_bytes() == finished
    assert second.read_bytes().startswith(begun[: begun.rfind(b"\n") + 1])
    assert {name: content.count(b"\n") for name, content in run.passes().items()} == dict.fromkeys(run.passes(), ROWS)
    before = run.passes()
    run.run("--no-plot")
    assert run.passes() == before


def test_an_interrupted_run_says_what_to_do(run):
    with subprocess.Popen(
        run.command("--no-plot", "--fake-seconds", "0.1"), env=environ(), stderr=subprocess.PIPE
    ) as process:
        _wait_for_lines(run.output / "direct-1.jsonl", count=2, process=process)
        process.send_signal(signal.SIGINT)
        _, log = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 130
    assert "Interrupted: run the same command again" in log.decode()


def _wait_for_lines(path: Path, *, count: int, process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not (path.exists() and path.read_bytes().count(b"\n") >= count):
        assert process.poll() is None, "the run ended before it was stopped"
        assert time.monotonic() < deadline, f"there were no {count} lines in {PATIENCE_S} s"
        time.sleep(0.01)


def test_a_failed_check_is_exit_code_one(run):
    records = [json.loads(line) for line in run.reference.read_text(encoding="utf-8").splitlines()]
    records[3]["probabilities"] = records[3]["probabilities"][1:] + records[3]["probabilities"][:1]
    run.reference.write_text("".join(json.dumps(record) + "\n" for record in records), encoding="utf-8")
    out, _log = run.run("--no-plot", code=1)
    assert out.startswith("parity:                failed: same top option on 11 of 12 rows")
    (flip,) = run.report()["checks"][0]["figures"]["flips"]
    assert flip["id"] == "größe-3 雪"


def test_a_row_that_fails_to_score_fails_its_checks_in_words(run):
    run.write_rows(row(0, question="[fake:out_of_memory]"), *map(row, range(1, ROWS)))
    out, _log = run.run("--no-plot", code=1)
    assert "failed: 1 rows of direct-1.jsonl could not be scored: größe-0 雪 (out_of_memory)" in out


def test_a_reference_of_another_model_is_not_judged(run):
    run.reference.write_bytes(run.reference.read_bytes().replace(b'"source": "fake"', b'"source": "other"'))
    out, _log = run.run("--no-plot")
    assert "not judged" in out.splitlines()[0]
    assert "the reference is of another model, other" in out.splitlines()[0]


def test_wrong_files_are_refused_before_anything_is_written(run):
    lines = run.reference.read_bytes().splitlines(keepends=True)
    run.reference.write_bytes(b"".join(lines[1:]))
    assert run.refusal() == "reference.jsonl has no prediction for größe-0 雪; give the one of these rows"
    run.reference.write_bytes(b"".join([*lines, lines[0]]))
    assert run.refusal() == (
        "reference.jsonl, line 13: größe-0 雪 has a prediction already; keep one of them"
    )  # fmt: skip
    run.reference.write_bytes(b"".join(lines))
    run.rows.write_bytes(b"")
    assert run.refusal() == "rows.jsonl holds no rows"
    run.rows.unlink()
    assert run.refusal() == f"cannot read {run.rows}: No such file or directory"
    assert not run.output.exists()


def test_a_folder_of_other_rows_or_of_somebody_else_is_refused_and_kept(run):
    run.output.mkdir()
    (run.output / "notes.txt").write_bytes(b"mine")
    assert run.refusal().endswith("holds files that are not of an acceptance run; name a new --output")
    assert [path.name for path in run.output.iterdir()] == ["notes.txt"]
    (run.output / "notes.txt").unlink()
    run.run("--no-plot")
    before = run.passes()
    run.write(*(row(number, state="Secret evidence of another kind.") for number in range(ROWS)))
    text = "direct-1.jsonl: record 1 of the output does not answer the input; name a new --output"
    assert run.refusal("--no-plot") == text
    assert run.passes() == before


def test_missing_matplotlib_is_refused_before_the_model_loads(run):
    without = f"import sys; sys.modules['matplotlib'] = None; {PROGRAM}"
    text = "the plot needs matplotlib; in a checkout of steelyard run: pip install '.[plots]', or give --no-plot"
    assert run.refusal("--model", "absent", program=without) == text
    assert not run.output.exists()
    run.run("--no-plot", program=without)


@pytest.mark.parametrize("arguments", [["--repeats", "2"], ["--repeats", "x"], ["extra"], ["--nonsense"]])
def test_wrong_use_is_exit_code_two(run, arguments):
    _out, log = run.run(*arguments, code=2)
    assert log.startswith("Usage: ")


def test_a_bad_setting_is_one_sentence_and_exit_code_two(run):
    assert run.refusal("--max-tokens", "0").startswith("--max-tokens (SEMIF_MAX_TOKENS) must be an integer from 1")


def test_a_terminal_gets_one_bar_that_says_what_runs_now(run):
    terminal, stderr = pty.openpty()
    command = run.command("--no-plot")
    with subprocess.Popen(command, env=environ(COLUMNS="120"), stdout=subprocess.PIPE, stderr=stderr) as process:
        os.close(stderr)
        drawn = b""
        # Linux ends a terminal whose other side is closed with an OSError.
        with suppress(OSError):
            while chunk := os.read(terminal, 4096):
                drawn += chunk
        process.communicate(timeout=PATIENCE_S)
    os.close(terminal)
    assert process.returncode == 0
    for words in (b"Accepting", b"memory", b"direct-1.jsonl", b"shuffled.jsonl", b"shared.jsonl", b"speed", b"134/134"):
        assert words in drawn
    assert b"135/134" not in drawn


def test_a_log_tells_each_piece_of_work_as_it_begins(run):
    _, log = run.run("--no-plot")
    begun = [line.rpartition("Now: ")[2] for line in log.splitlines() if "Now: " in line]
    assert begun == ["memory", "direct-1.jsonl", "direct-2.jsonl", "shuffled.jsonl", "shared.jsonl", "speed"]


def test_semifs_own_rows_and_predictions_are_read_and_their_prompts_are_equal(run):
    run.rows, run.reference = SHARED_DATA / "authored144.jsonl", SHARED_DATA / "semif-qwen3.5-4b-authored144.jsonl"
    if not (run.rows.is_file() and run.reference.is_file()):
        pytest.skip(f"SemIf's recorded predictions are not in {SHARED_DATA}; set STEELYARD_SHARED_DATA to their folder")
    run.run("--no-plot")
    parity = run.report()["checks"][0]
    assert (parity["verdict"], parity["figures"]["rows"], parity["figures"]["equal_prompts"]) == (
        "not judged",
        144,
        144,
    )
    assert run.report()["accuracy"]["reference"] == pytest.approx(0.8056, abs=5e-5)


def test_an_environment_that_matplotlib_does_not_take_is_refused_before_the_model_loads(run):
    text = run.refusal(MPLBACKEND="nonsense")
    assert text.startswith("matplotlib cannot be loaded: ")
    assert "'nonsense'" in text
    assert text.endswith("; put that right, or give --no-plot")
    run.run("--no-plot", MPLBACKEND="nonsense")
