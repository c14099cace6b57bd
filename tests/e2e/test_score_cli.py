"""`steelyard decide score` as an operator runs it: real processes on the fake model, a real kill."""

from __future__ import annotations

import json
import os
import pty
import resource
import signal
import subprocess
import sys
import time
from contextlib import suppress
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pathlib import Path

COMMAND = [sys.executable, "-c", "from steelyard.cli import main; main()", "decide", "score"]
TIMINGS = ("forward_seconds", "total_seconds")
PATIENCE_S = 60


def environ(**changes: str) -> dict[str, str]:
    own = {name: value for name, value in os.environ.items() if not name.startswith("SEMIF_")}
    return own | {"SEMIF_MODEL": "fake"} | changes


def row(number: int, **changes: object) -> dict:
    own = {
        "id": f"r{number}",
        "state": f"Evidence {number // 4}.",
        "question": f"Is {number} right?",
        "options": [{"id": "yes", "description": "Yes"}, {"id": "no", "description": "No"}],
    }
    return own | changes


def lines_of(*rows: object) -> bytes:
    return b"".join((r if isinstance(r, bytes) else json.dumps(r, ensure_ascii=False).encode()) + b"\n" for r in rows)


class Files:
    """An input and an output file, and runs over them."""

    def __init__(self, folder: Path) -> None:
        self.input, self.output = folder / "rows.jsonl", folder / "results.jsonl"

    def command(self, *arguments: str, mode: str = "direct") -> list[str]:
        return [*COMMAND, "--mode", mode, "--input", str(self.input), "--output", str(self.output), *arguments]

    def run(self, *arguments: str, mode: str = "direct", code: int = 0, **changes: str) -> str:
        """Run to the end, expect the exit code and give what came on stderr; stdout stays empty."""
        finished = subprocess.run(
            self.command(*arguments, mode=mode), env=environ(**changes), capture_output=True, check=False,
            timeout=PATIENCE_S,
        )  # fmt: skip
        stderr = finished.stderr.decode()
        assert finished.returncode == code, stderr
        assert finished.stdout == b""
        assert "Traceback" not in stderr
        return stderr

    def refusal(self, *arguments: str, mode: str = "direct", **changes: str) -> str:
        """Expect exit code 2 and give the one sentence."""
        (sentence,) = (line for line in self.run(*arguments, mode=mode, code=2, **changes).splitlines()
                       if line.startswith("Error: "))  # fmt: skip
        return sentence.removeprefix("Error: ")

    def records(self) -> list[dict]:
        raw = self.output.read_bytes()
        assert raw.endswith(b"\n") or not raw
        return [json.loads(line) for line in raw.split(b"\n")[:-1]]

    def lasting(self) -> bytes:
        """Give the output's bytes without the seconds that each run measures anew."""
        return lines_of(*({k: v for k, v in r.items() if k not in TIMINGS} for r in self.records()))


@pytest.fixture
def files(tmp_path):
    return Files(tmp_path)


@pytest.mark.parametrize("mode", ["direct", "shared"])
def test_every_row_gets_its_record_in_order(files, mode):
    files.input.write_bytes(lines_of(*map(row, range(10))))
    stderr = files.run(mode=mode)
    records = files.records()
    assert [record["id"] for record in records] == [f"r{i}" for i in range(10)]
    assert ("serving_config" in records[0]["model"]) == (mode == "shared")
    assert ("forward_seconds" in records[0]) == (mode == "direct")
    assert f"10 of 10 rows scored, 0 error records; see {files.output}" in stderr


def test_both_modes_agree_on_the_fake_model(files, tmp_path):
    files.input.write_bytes(lines_of(*map(row, range(6))))
    files.run()
    direct = files.records()
    files.output.unlink()
    files.run(mode="shared")
    assert [r["option_logits"] for r in files.records()] == [r["option_logits"] for r in direct]


def test_a_bad_row_is_an_error_record_with_its_line_and_the_exit_code_says_so(files):
    files.input.write_bytes(
        b"\n"
        + lines_of(row(0), b"  ", {"id": "lacks"}, b"\xff\xfe", b'{"id": "x", "state": NaN}', b"[" * 99_999, row(1))
    )
    stderr = files.run(code=1)
    good, lacks, *raw, last = files.records()
    assert (good["id"], last["id"]) == ("r0", "r1")
    assert lacks == {
        "id": "lacks",
        "line": 4,
        "error": {"code": "invalid_request", "message": "Row is missing fields: ['options', 'question', 'state']"},
    }
    assert [(r["id"], r["line"], r["error"]["code"]) for r in raw] == [(None, i, "invalid_request") for i in (5, 6, 7)]
    assert "2 of 6 rows scored, 4 error records" in stderr


def test_a_huge_line_is_one_row(files):
    files.input.write_bytes(lines_of(row(0, state="word " * 300_000), row(1)))
    files.run(code=1)
    huge, fine = files.records()
    assert huge["error"]["message"].endswith("input tokens exceed limit 4096; no truncation allowed")
    assert "error" not in fine
    files.output.unlink()
    files.run("--max-tokens", "9000000")
    assert files.records()[0]["input_tokens"] > 300_000


def test_unicode_is_kept(files):
    own = row(0, id="größe 雪 🐈\u2028", state={"ключ": "قيمة"}, question="é?")
    own["options"][0]["id"] = "はい"
    files.input.write_bytes(lines_of(own))
    files.run()
    (record,) = files.records()
    assert (record["id"], record["option_ids"]) == ("größe 雪 🐈\u2028", ["はい", "no"])
    assert "はい".encode() in files.output.read_bytes()


def test_blank_lines_and_a_missing_last_newline_are_no_matter(files):
    files.input.write_bytes(b"\r\n\n \t\n" + lines_of(row(0)) + b"\n" + lines_of(row(1)).rstrip(b"\n"))
    assert "2 of 2 rows scored" in files.run()
    assert [record["id"] for record in files.records()] == ["r0", "r1"]


def test_an_empty_input_is_done_at_once(files):
    files.input.touch()
    assert "0 of 0 rows scored, 0 error records" in files.run()
    assert files.output.read_bytes() == b""


@pytest.mark.parametrize("mode", ["direct", "shared"])
def test_a_run_goes_on_wherever_its_output_was_cut(files, mode):
    files.input.write_bytes(lines_of(*map(row, range(3)), {"id": "bad"}, row(4)))
    files.run(mode=mode, code=1)
    whole, expected = files.output.read_bytes(), files.lasting()
    ends = [i + 1 for i, byte in enumerate(whole) if byte == ord("\n")]
    for cut in (0, 1, ends[0] - 1, ends[0], ends[0] + 1, ends[1] - 20, ends[2], ends[3] - 1, ends[3], ends[4] - 1):
        files.output.write_bytes(whole[:cut])
        files.run(mode=mode, code=1)
        assert files.lasting() == expected


@pytest.mark.parametrize("mode", ["direct", "shared"])
def test_a_killed_run_goes_on_to_the_bytes_of_an_uninterrupted_one(files, mode):
    files.input.write_bytes(lines_of(*map(row, range(40)), {"id": "bad"}))
    files.run(mode=mode, code=1)
    whole = files.lasting()
    files.output.unlink()
    slowly = environ(SEMIF_FAKE_SECONDS="0.05")
    with subprocess.Popen(files.command(mode=mode), env=slowly, stderr=subprocess.DEVNULL) as process:
        wait_for_lines(files.output, 8, process)
        process.kill()
    assert process.returncode == -signal.SIGKILL
    written = files.output.read_bytes().count(b"\n")
    assert 8 <= written < 41
    files.run(mode=mode, code=1)
    assert files.lasting() == whole


def test_an_interrupted_run_says_that_it_can_go_on(files):
    files.input.write_bytes(lines_of(*map(row, range(40))))
    slowly = environ(SEMIF_FAKE_SECONDS="0.05")
    with subprocess.Popen(files.command(), env=slowly, stderr=subprocess.PIPE) as process:
        wait_for_lines(files.output, 2, process)
        process.send_signal(signal.SIGINT)
        stderr = process.communicate(timeout=PATIENCE_S)[1].decode()
    assert process.returncode == 130, stderr
    assert stderr.endswith("Interrupted: run the same command again; a batch goes on where it stopped.\n")
    assert "Traceback" not in stderr
    assert len(files.records()) < 40
    files.run()
    assert [record["id"] for record in files.records()] == [f"r{i}" for i in range(40)]


def wait_for_lines(path: Path, count: int, process: subprocess.Popen) -> None:
    """Look until the file has *count* lines: nothing announces what a process has written."""
    deadline = time.monotonic() + PATIENCE_S
    while not (path.exists() and path.read_bytes().count(b"\n") >= count):
        assert process.poll() is None, "the run ended before it was killed"
        assert time.monotonic() < deadline, f"there were no {count} lines in {PATIENCE_S} s"
        time.sleep(0.01)


def test_a_second_run_has_nothing_to_do_and_changes_nothing(files):
    files.input.write_bytes(lines_of(row(0), {"id": "bad"}))
    files.run(code=1)
    before = files.output.read_bytes()
    assert "1 of 2 rows scored, 1 error records" in files.run(code=1)
    assert files.output.read_bytes() == before


def test_the_output_of_another_input_model_or_mode_is_refused_and_kept(files):
    files.input.write_bytes(lines_of(row(0), row(1)))
    files.run()
    before = files.output.read_bytes()
    assert files.refusal(mode="shared") == "the output holds results of the other mode; name a new --output"
    files.output.write_bytes(before.replace(b'"revision": null', b'"revision": "x"'))
    assert files.refusal() == "the output holds results of another model; name a new --output"
    files.output.write_bytes(b"my notes\n")
    assert files.refusal() == "the output holds a line that is no record of ours; name a new --output"
    assert files.output.read_bytes() == b"my notes\n"
    files.output.write_bytes(before)
    files.input.write_bytes(lines_of(row(0), row(1, state="Evidence of another kind.")))
    assert files.refusal() == "record 2 of the output does not answer the input; name a new --output"
    assert files.output.read_bytes() == before


def test_input_and_output_must_be_two_files(files):
    files.input.write_bytes(lines_of(row(0)))
    files.output.symlink_to(files.input)
    assert files.refusal() == "--input and --output are the same file; name another output"
    assert files.input.read_bytes() == lines_of(row(0))


def test_files_that_cannot_be_used_are_refused(files, tmp_path):
    assert files.refusal() == f"cannot read {files.input}: No such file or directory"
    files.input.write_bytes(lines_of(row(0)))
    files.output = tmp_path / "absent" / "results.jsonl"
    assert files.refusal() == f"cannot write {files.output}: No such file or directory"


def test_a_full_disk_ends_the_run_in_a_sentence_and_the_next_run_goes_on(files):
    files.input.write_bytes(lines_of(*map(row, range(20))))
    files.run()
    whole = files.lasting()
    files.output.unlink()
    finished = subprocess.run(
        files.command(), env=environ(), capture_output=True, text=True, check=False, timeout=PATIENCE_S,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (5000, 5000)),
    )  # fmt: skip
    assert finished.returncode == 2, finished.stderr
    assert "results.jsonl: File too large; put that right and run the same command again" in finished.stderr
    assert "Traceback" not in finished.stderr
    files.run()
    assert files.lasting() == whole


@pytest.mark.parametrize(
    ("arguments", "changes", "text"),
    [
        (["--max-tokens", "0"], {}, "--max-tokens (SEMIF_MAX_TOKENS) must be an integer from 1 to 2147483647"),
        (
            [],
            {"SEMIF_MAX_TOKEN": "1"},
            "SEMIF_MAX_TOKEN is not a setting of this server; did you mean",
        ),
        ([], {"SEMIF_MODEL": "x"}, "SEMIF_MODEL x is no hub id, folder, .gguf file or known name; names: embedded, "),
        (["--vram-cap-gib", "4"], {}, "SEMIF_VRAM_CAP_GIB is set, but the fake engine cannot enforce a cap; unset it"),
    ],
)
def test_a_bad_setting_is_one_sentence_and_exit_code_two(files, arguments, changes, text):
    files.input.write_bytes(lines_of(row(0)))
    assert files.refusal(*arguments, **changes).startswith(text)
    assert not files.output.exists()


@pytest.mark.parametrize("arguments", [[], ["--mode", "other"], ["--mode", "direct"], ["--nonsense"]])
def test_wrong_use_is_exit_code_two(arguments):
    finished = subprocess.run([*COMMAND, *arguments], env=environ(), capture_output=True, text=True, check=False)
    assert (finished.returncode, finished.stdout) == (2, "")
    assert finished.stderr.startswith("Usage: ")


def test_scoring_needs_no_token(files):
    files.input.write_bytes(lines_of(row(0)))
    assert "SEMIF_API_TOKEN" not in environ()
    files.run()


def test_a_terminal_gets_a_bar_on_stderr(files):
    files.input.write_bytes(lines_of(*map(row, range(4))))
    terminal, stderr = pty.openpty()
    with subprocess.Popen(files.command(), env=environ(), stdout=subprocess.PIPE, stderr=stderr) as process:
        os.close(stderr)
        drawn = b""
        # Linux ends a terminal whose other side is closed with an OSError.
        with suppress(OSError):
            while chunk := os.read(terminal, 4096):
                drawn += chunk
        assert process.stdout is not None
        assert process.stdout.read() == b""
    os.close(terminal)
    assert process.returncode == 0
    assert b"Scoring" in drawn
    assert b"4/4" in drawn


def test_a_pulled_model_loads_and_scores_without_the_network(files, weights):
    program = """
import sys

def refuse(event, _arguments):
    if event in {"socket.connect", "socket.getaddrinfo", "socket.gethostbyname", "socket.sendto"}:
        raise AssertionError(f"{event} without a caller")

sys.addaudithook(refuse)
from steelyard.cli import main
main()
"""
    files.input.write_bytes(lines_of(row(1)))
    own = environ(SEMIF_MODEL="smollm2-135m", SEMIF_MODELS_DIR=str(weights("smollm2-135m").parent), SEMIF_DEVICE="cpu")
    command = [sys.executable, "-c", program, *files.command()[len(COMMAND[:3]) :]]
    subprocess.run([*command, "--threads", "1"], env=own, check=True, timeout=PATIENCE_S)
    (record,) = files.records()
    assert record["model"]["source"] == "smollm2-135m"
