from __future__ import annotations

import fcntl
import io
import json
import os
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from tests.unit.decide.makers import fields

from steelyard.decide.batch import BatchLimits, BatchRefused, count_rows, score_file
from steelyard.decide.domain.direct import score_direct
from steelyard.decide.domain.rows import parse_row
from steelyard.decide.domain.shared import score_shared
from steelyard.decide.engines.fake import FakeEngine
from steelyard.decide.model_thread import ModelThread
from steelyard.decide.startup import warm_up

TIMINGS = ("forward_seconds", "total_seconds")


@dataclass
class Batch:
    """An input and an output file, and runs over them with a fresh fake engine each."""

    folder: Path
    engine: FakeEngine = field(default_factory=FakeEngine)
    told: list[int] = field(default_factory=list)

    @property
    def input(self) -> Path:
        return self.folder / "rows.jsonl"

    @property
    def output(self) -> Path:
        return self.folder / "results.jsonl"

    def write(self, *lines: object) -> None:
        self.input.write_bytes(b"".join(_line(line) + b"\n" for line in lines))

    def run(self, *, mode: str = "direct", max_tokens: int = 10_000, max_decisions: int = 64) -> int:
        thread = ModelThread(self.engine, warm_up=warm_up, on_poisoned=lambda: None)
        limits = BatchLimits(max_tokens=max_tokens, max_decisions=max_decisions)
        self.told.clear()
        try:
            return score_file(
                self.input, self.output, mode=mode, thread=thread, limits=limits, on_rows=self.told.append
            )
        finally:
            thread.close()

    def refusal(self, **options: str) -> str:
        before = self.output.read_bytes()
        with pytest.raises(BatchRefused) as caught:
            self.run(**options)  # type: ignore[arg-type]  # Only the mode is given.
        assert self.output.read_bytes() == before, "a refused run changed the output"
        return str(caught.value)

    def records(self) -> list[dict]:
        raw = self.output.read_bytes()
        assert raw.endswith(b"\n") or not raw
        return [json.loads(line) for line in raw.split(b"\n")[:-1]]

    def lasting(self) -> list[dict]:
        """Give the records without the seconds that each run measures anew."""
        return [{k: v for k, v in record.items() if k not in TIMINGS} for record in self.records()]


def _line(line: object) -> bytes:
    return line if isinstance(line, bytes) else json.dumps(line, ensure_ascii=False).encode()


@pytest.fixture
def batch(tmp_path):
    return Batch(tmp_path)


def rows(count: int, **changes: object) -> list[dict]:
    return [fields(id=f"r{i}", question=f"Question {i}?", **changes) for i in range(count)]


def test_direct_records_are_the_direct_scorers_results(batch):
    batch.write(*rows(3))
    assert batch.run() == 0
    expected = [score_direct(parse_row(row), engine=FakeEngine(), max_tokens=10_000) for row in rows(3)]
    assert [list(record) for record in batch.records()] == [list(result) for result in expected]
    assert batch.lasting() == [{k: v for k, v in result.items() if k not in TIMINGS} for result in expected]
    assert batch.told == [0, 1, 1, 1]


def test_shared_records_are_the_shared_scorers_results(batch):
    batch.write(*rows(3))
    assert batch.run(mode="shared") == 0
    expected, _timing = score_shared([parse_row(row) for row in rows(3)], engine=FakeEngine(), max_tokens=10_000)
    assert batch.records() == expected
    assert batch.told == [0, 3]


def test_neighbours_of_one_exact_state_share_a_call(batch):
    batch.write(
        *rows(2),
        fields(id="x", state={"a": 1}),
        fields(id="y", state={"a": 1.0}),
        fields(id="z", state={"a": 1.0}),
        fields(id="w", state={"a": 1}),
    )
    batch.run(mode="shared")
    assert batch.told == [0, 2, 1, 2, 1]


def test_a_call_takes_no_more_rows_than_the_limit(batch):
    batch.write(*rows(5))
    batch.run(mode="shared", max_decisions=2)
    assert batch.told == [0, 2, 2, 1]


def test_rows_with_one_id_do_not_share_a_call(batch):
    batch.write(fields(), fields(), fields(id="other"))
    assert batch.run(mode="shared") == 0
    assert batch.told == [0, 1, 2]


def test_in_shared_mode_the_prefix_goes_through_the_model_once_a_state(batch):
    batch.write(*rows(20, state="word " * 500))
    batch.run(mode="shared")
    shared = batch.engine.evaluated_tokens
    direct = sum(record["input_tokens"] for record in batch.records())
    assert shared < direct / 5


@pytest.mark.parametrize("mode", ["direct", "shared"])
def test_a_row_that_cannot_be_scored_becomes_an_error_record_and_the_rest_goes_on(batch, mode):
    batch.write(
        *rows(1), {"id": "lacks"}, b"{nonsense", fields(id="long", question="word " * 500), b"[1]", fields(id=7),
        fields(id="last"),
    )  # fmt: skip
    assert batch.run(mode=mode, max_tokens=300) == 5
    good, lacks, nonsense, long, array, number, last = batch.records()
    assert (good["id"], last["id"]) == ("r0", "last")
    assert lacks == {
        "id": "lacks",
        "line": 2,
        "error": {"code": "invalid_request", "message": "Row is missing fields: ['options', 'question', 'state']"},
    }
    assert (nonsense["id"], nonsense["line"]) == (None, 3)
    assert (long["id"], long["line"]) == ("long", 4)
    assert long["error"]["message"].endswith("input tokens exceed limit 300; no truncation allowed")
    assert array["error"]["message"] == "The line must be a JSON object"
    assert (number["id"], number["line"]) == (None, 6)
    assert sum(batch.told) == 7


@pytest.mark.parametrize("mode", ["direct", "shared"])
@pytest.mark.parametrize(
    ("marker", "code"),
    [("[fake:out_of_memory]", "out_of_memory"), ("[fake:failure]", "scoring_failed"), ("[fake:nan]", "scoring_failed")],
)
def test_a_row_that_fails_spoils_none_of_its_neighbours(batch, mode, marker, code):
    own = rows(5)
    own[2]["question"] += marker
    batch.write(*own)
    assert batch.run(mode=mode) == 1
    codes = [record.get("error", {}).get("code") for record in batch.records()]
    assert codes == [None, None, code, None, None]


def test_a_state_that_fails_fails_all_its_rows(batch):
    batch.write(*rows(3, state="[fake:failure]"), fields(id="fine"))
    assert batch.run(mode="shared") == 3
    assert [record.get("line") for record in batch.records()] == [1, 2, 3, None]


@pytest.mark.parametrize(
    "line",
    [b"\xff\xfe", b'{"id": "\\ud800"}', b'{"id": NaN}', b"[" * 100_000, b'{"id": ' + b"9" * 5000 + b"}", b"\x00",
     b"\xef\xbb\xbf"],
    ids=["bytes", "surrogate", "nan", "deep", "digits", "nul", "mark"],
)  # fmt: skip
def test_bad_bytes_are_one_error_record(batch, line):
    batch.write(*rows(1), line, fields(id="last"))
    assert batch.run() == 1
    assert [record["id"] for record in batch.records()] == ["r0", None, "last"]
    assert batch.records()[1]["error"]["code"] == "invalid_request"


def test_blank_lines_are_no_rows_but_count_as_lines(batch):
    batch.write(b"", *rows(1), b"  \t", b"\r", {"id": "bad"}, b"")
    assert count_rows(batch.input) == 2
    assert batch.run() == 1
    assert [record["id"] for record in batch.records()] == ["r0", "bad"]
    assert batch.records()[1]["line"] == 5


def test_a_last_line_without_a_newline_is_a_row(batch):
    batch.input.write_bytes(_line(rows(1)[0]))
    assert count_rows(batch.input) == 1
    assert batch.run() == 0
    assert len(batch.records()) == 1


def test_windows_line_ends_and_a_byte_order_mark_are_taken(batch):
    batch.input.write_bytes(b"\xef\xbb\xbf" + b"\r\n".join(map(_line, rows(2))) + b"\r\n")
    assert batch.run() == 0
    assert [record["id"] for record in batch.records()] == ["r0", "r1"]


def test_an_empty_input_gives_an_empty_output(batch):
    batch.input.touch()
    assert batch.run() == 0
    assert batch.output.read_bytes() == b""


def test_unicode_stays_readable(batch):
    batch.write(
        fields(id="größe 🐈 \u2028", options=[{"id": "é", "description": "x"}, {"id": "雪", "description": "y"}])
    )
    batch.run()
    assert '"größe 🐈 \u2028"'.encode() in batch.output.read_bytes()
    assert '["é", "雪"]'.encode() in batch.output.read_bytes()


@pytest.mark.parametrize("mode", ["direct", "shared"])
def test_a_run_goes_on_wherever_its_output_was_cut(batch, mode):
    own = [*rows(2), {"id": "bad"}, b"nonsense", *rows(2, state="Another state.")]
    batch.write(*own)
    assert batch.run(mode=mode) == 2
    whole, expected = batch.output.read_bytes(), batch.lasting()
    for cut in [*range(0, len(whole), 41), *(i + d for i in _newlines(whole) for d in (-1, 0, 1)), len(whole)]:
        batch.output.write_bytes(whole[:cut])
        assert batch.run(mode=mode) == 2
        assert batch.lasting() == expected
        assert batch.told[0] == whole[:cut].count(b"\n")
        kept = whole[: whole[:cut].rfind(b"\n") + 1]
        assert batch.output.read_bytes().startswith(kept)


def _newlines(raw: bytes) -> list[int]:
    return [i for i, byte in enumerate(raw) if byte == ord("\n")]


def test_a_cut_in_the_middle_of_a_character_is_no_obstacle(batch):
    batch.write(fields(id="雪" * 50), fields(id="z"))
    batch.run()
    whole, expected = batch.output.read_bytes(), batch.lasting()
    for cut in range(8, 16):
        batch.output.write_bytes(whole[:cut])
        batch.run()
        assert batch.lasting() == expected


def test_a_finished_run_scores_nothing_again(batch):
    batch.write(*rows(2), {"id": "bad"})
    assert batch.run() == 1
    before = batch.output.read_bytes()
    batch.engine = FakeEngine()
    assert batch.run() == 1
    assert batch.engine.evaluated_tokens == 0
    assert batch.output.read_bytes() == before
    assert batch.told == [3]


def test_an_input_that_grew_is_gone_on_with(batch):
    batch.write(*rows(2))
    batch.run()
    batch.write(*rows(4))
    assert batch.run() == 0
    assert [record["id"] for record in batch.records()] == ["r0", "r1", "r2", "r3"]


@pytest.fixture
def finished(batch):
    batch.write(*rows(2), {"id": "bad"})
    batch.run()
    return batch


OTHER_INPUT = "record {} of the output does not answer the input; name a new --output"


@pytest.mark.parametrize(
    ("lines", "number"),
    [
        ([fields(id="other"), *rows(2)], 1),
        ([*rows(2), {"id": "worse"}], 3),
        ([*rows(2)], 3),
        ([], 1),
        # Files often number their rows alike.
        ([rows(1)[0], *rows(2, state="Another state.")[1:], {"id": "bad"}], 2),
        ([*rows(1), {"id": "r1"}, {"id": "bad"}], 2),
    ],
)
def test_the_output_of_another_input_is_refused(finished, lines, number):
    finished.write(*lines)
    assert finished.refusal() == OTHER_INPUT.format(number)


def test_the_output_of_another_model_is_refused(finished):
    finished.engine.model = {**finished.engine.model, "revision": "other"}
    assert finished.refusal() == "the output holds results of another model; name a new --output"


def test_the_output_of_the_other_mode_is_refused(finished):
    text = "the output holds results of the other mode; name a new --output"
    assert finished.refusal(mode="shared") == text
    finished.output.unlink()
    finished.run(mode="shared")
    assert finished.refusal(mode="direct") == text


@pytest.mark.parametrize(
    "line",
    [b"", b"notes", b"[1]", b"5", b"null", b'"x"', b"\xff", b'{"model": 5}', b'{"model": null}', b"[" * 100_000],
    ids=lambda line: line[:12],
)
def test_a_file_that_is_no_output_of_ours_is_refused_and_kept(finished, line):
    finished.output.write_bytes(line + b"\n")
    assert finished.refusal() == "the output holds a line that is no record of ours; name a new --output"


def test_json_of_somebody_else_is_refused_and_kept(finished):
    finished.output.write_bytes(b'{"id": "r0"}\n')
    assert finished.refusal() == "the output holds results of another model; name a new --output"


@pytest.mark.parametrize("link", [None, Path.symlink_to, Path.hardlink_to])
def test_input_and_output_are_two_files(batch, link):
    batch.write(*rows(1))
    if link:
        link(batch.output, batch.input)
    else:
        batch.folder.joinpath("results.jsonl").symlink_to(batch.folder / ".." / batch.folder.name / "rows.jsonl")
    assert batch.refusal() == "--input and --output are the same file; name another output"


def test_a_file_that_cannot_be_read_or_written_is_refused(batch):
    with pytest.raises(BatchRefused, match=r"^cannot read .*rows.jsonl: No such file or directory$"):
        count_rows(batch.input)
    with pytest.raises(BatchRefused, match="is no regular file"):
        count_rows(batch.folder)
    batch.write(*rows(1))
    batch.output.mkdir()
    with pytest.raises(BatchRefused, match=r"^cannot write .*results.jsonl: Is a directory$"):
        batch.run()


class FullDisk(io.BytesIO):
    """A file whose disk has room for *room* bytes more."""

    def __init__(self, room: int) -> None:
        super().__init__()
        self.room = room

    def write(self, content) -> int:
        self.room -= len(content)
        if self.room < 0:
            raise OSError(28, "No space left on device")
        return super().write(content)


def test_a_full_disk_ends_the_run_in_words(batch, monkeypatch):
    batch.write(*rows(9))
    monkeypatch.setattr("steelyard.decide.batch._open_output", lambda _input, _output: FullDisk(2000))
    with pytest.raises(BatchRefused, match=r"results.jsonl: No space left on device; put that right and run the same"):
        batch.run()


class Breaking(FakeEngine):
    """Breaks for good at its second call, as a card does whose context is poisoned."""

    def __init__(self) -> None:
        super().__init__()
        self.calls = 0

    def forward(self, tokens, slots):
        self.calls += 1
        if self.calls > 1:
            raise RuntimeError("the device is lost")
        return super().forward(tokens, slots)


def test_a_model_that_stops_answering_ends_the_run_and_no_row_is_blamed_for_it(batch):
    batch.write(*rows(3))
    batch.engine = Breaking()
    with pytest.raises(BatchRefused, match="stopped answering at line 2"):
        batch.run()
    assert [record["id"] for record in batch.records()] == ["r0"]
    batch.engine = FakeEngine()
    assert batch.run() == 0
    assert [record["id"] for record in batch.records()] == ["r0", "r1", "r2"]


def test_a_second_run_on_the_same_output_is_refused_while_the_first_one_writes(batch):
    batch.write(*rows(1))
    with batch.output.open("ab") as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        assert "another run is writing" in batch.refusal()
    assert batch.run() == 0


def test_an_error_record_speaks_of_its_line(batch):
    batch.write(b"{")
    assert batch.run() == 1
    assert batch.records()[0]["error"]["message"].startswith("The line is not JSON")


def test_a_pipe_is_refused_since_it_can_be_read_only_once(batch):
    os.mkfifo(batch.input)
    with pytest.raises(BatchRefused, match="is no regular file"):
        count_rows(batch.input)


@pytest.mark.parametrize("text", [b"notes without a newline", b'{"name":"minified"}', b"\x00"])
def test_a_file_of_somebody_else_without_a_last_newline_is_kept(batch, text):
    batch.write(*rows(2))
    batch.output.write_bytes(text)
    assert "no record of ours" in batch.refusal()
