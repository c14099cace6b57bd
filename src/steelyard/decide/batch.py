"""Batch scoring: a file of rows in, a file of results out, one line for each, in order.

An interrupted run goes on where it stopped, since line *n* of the output always answers row *n* of the input. A row
that cannot be scored becomes an error record with its line number, and the rest goes on.
"""

from __future__ import annotations

import fcntl
import json
import os
from dataclasses import dataclass
from typing import IO, TYPE_CHECKING

from steelyard.decide.domain.direct import score_direct
from steelyard.decide.domain.errors import DecideError, InvalidRequest
from steelyard.decide.domain.prompt import encode_row, messages_of, serialise
from steelyard.decide.domain.rows import Row, parse_row
from steelyard.decide.domain.shared import score_shared
from steelyard.hall.digests import sha256_of_text
from steelyard.hall.errors import SteelyardError
from steelyard.web.bodies import parse_json

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from steelyard.decide.domain.results import Result
    from steelyard.decide.model_thread import ModelThread

MODES = ("direct", "shared")
_RECORD_START = b'{"id": '
_NO_RECORD = "the output holds a line that is no record of ours; name a new --output"


class BatchRefused(SteelyardError):
    """The batch cannot be run on these files."""

    code = "batch_refused"


@dataclass(frozen=True)
class BatchLimits:
    """Longest prompt in tokens, and most rows that share one engine call."""

    max_tokens: int
    max_decisions: int


@dataclass(frozen=True)
class _Run:
    """How rows are scored in this run."""

    mode: str
    thread: ModelThread
    limits: BatchLimits


@dataclass(frozen=True)
class _Line:
    """One nonblank line of the input: the row on it, or why there is none."""

    number: int
    id: str | None
    row: Row | None
    error: SteelyardError | None = None


def count_rows(path: Path) -> int:
    """Return how many nonblank lines the file at *path* has; raises BatchRefused where it cannot be read."""
    if path.exists() and not path.is_file():
        raise BatchRefused(f"{path} is no regular file, and is read more than once; save the rows to a file first")
    try:
        with path.open("rb") as file:
            return sum(1 for line in file if line.strip())
    except OSError as error:
        raise BatchRefused(f"cannot read {path}: {error.strerror}") from None


def score_file(
    input_path: Path,
    output_path: Path,
    *,
    mode: str,
    thread: ModelThread,
    limits: BatchLimits,
    on_rows: Callable[[int], object] = lambda _count: None,
) -> int:
    """Score every row of *input_path* into *output_path* and return how many error records the output holds.

    *on_rows* hears the number of rows after each piece of work, those of an earlier run first. Raises BatchRefused
    where the output belongs to another input, another model or another mode.
    """
    try:
        with input_path.open("rb") as source, _open_output(input_path, output_path) as output:
            return _score_lines(_lines(source), output, run=_Run(mode, thread, limits), on_rows=on_rows)
    except OSError as error:
        raise BatchRefused(
            f"cannot go on with {output_path}: {error.strerror}; put that right and run the same command again"
        ) from None


def _score_lines(lines: Iterator[_Line], output: IO[bytes], *, run: _Run, on_rows: Callable[[int], object]) -> int:
    failed, done = _skip_finished(output, lines, run)
    on_rows(done)
    for group in _groups(lines, run):
        records = _records(group, run)
        if run.thread.is_poisoned:  # Errors from now on say nothing about their rows, so no record keeps them.
            raise BatchRefused(
                f"the model stopped answering at line {group[0].number}; run the same command again, and if it stops "
                "there again, take that row out"
            )
        failed += sum("error" in record for record in records)
        output.write(b"".join(_json_line(record) for record in records))
        output.flush()
        on_rows(len(records))
    return failed


def _open_output(input_path: Path, output_path: Path) -> IO[bytes]:
    try:
        if output_path.exists() and os.path.samefile(input_path, output_path):
            raise BatchRefused("--input and --output are the same file; name another output")
        output = output_path.open("a+b")
    except OSError as error:
        raise BatchRefused(f"cannot write {output_path}: {error.strerror or error}") from None
    try:
        fcntl.flock(output, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        output.close()
        raise BatchRefused(f"another run is writing {output_path}; wait for it or name another --output") from None
    return output


def _lines(source: IO[bytes]) -> Iterator[_Line]:
    for number, line in enumerate(source, start=1):
        if line.strip():
            yield _parse_line(number, line)


def _parse_line(number: int, line: bytes) -> _Line:
    identifier = None
    try:
        fields = parse_json(line, what="The line")
        if not isinstance(fields, dict):
            raise InvalidRequest("The line must be a JSON object")
        identifier = fields.get("id") if isinstance(fields.get("id"), str) else None
        return _Line(number=number, id=identifier, row=parse_row(fields))
    except SteelyardError as error:
        return _Line(number=number, id=identifier, row=None, error=error)


def _skip_finished(output: IO[bytes], lines: Iterator[_Line], run: _Run) -> tuple[int, int]:
    """Take from *lines* those that *output* answers already; return its error records and all its records."""
    failed = done = end = 0
    output.seek(0)
    for record_line in output:
        if not record_line.endswith(b"\n"):
            _check_cut_record(record_line)
            break  # The run was cut off in the middle of this record: it is written again.
        record = _finished_record(record_line, run)
        line = next(lines, None)
        if line is None or not _answers(record, line, run):
            raise BatchRefused(f"record {done + 1} of the output does not answer the input; name a new --output")
        failed, done, end = failed + ("error" in record), done + 1, end + len(record_line)
    output.truncate(end)
    return failed, done


def _check_cut_record(piece: bytes) -> None:
    """Refuse to cut away what no run of ours began: it may be somebody's file."""
    if not (piece.startswith(_RECORD_START) or _RECORD_START.startswith(piece)):
        raise BatchRefused(_NO_RECORD)


def _finished_record(line: bytes, run: _Run) -> dict[str, object]:
    try:
        record = json.loads(line)
    except (ValueError, RecursionError):
        record = None
    model = record.get("model", {}) if isinstance(record, dict) else None
    if not isinstance(record, dict) or not isinstance(model, dict):
        raise BatchRefused(_NO_RECORD)
    if "error" in record:
        return record
    if {k: v for k, v in model.items() if k != "serving_config"} != run.thread.engine.model:
        raise BatchRefused("the output holds results of another model; name a new --output")
    if ("serving_config" in model) != (run.mode == "shared"):
        raise BatchRefused("the output holds results of the other mode; name a new --output")
    return record


def _answers(record: dict[str, object], line: _Line, run: _Run) -> bool:
    """Tell whether *record* is the outcome of *line*: files of different rows often number them alike."""
    row = line.row
    if record.get("id") != line.id:
        return False
    if "error" in record or row is None:
        return "error" in record
    text = run.thread.submit(lambda engine: engine.tokenizer.render(messages_of(row))).result()
    return record.get("prompt_sha256") == sha256_of_text(text)


def _groups(lines: Iterator[_Line], run: _Run) -> Iterator[list[_Line]]:
    """Yield runs of lines that go into one engine call: one line, or in shared mode neighbours of one exact state."""
    group: list[_Line] = []
    for line in lines:
        if group and not (run.mode == "shared" and _joins(line, group, run.limits)):
            yield group
            group = []
        group.append(line)
    if group:
        yield group


def _joins(line: _Line, group: Sequence[_Line], limits: BatchLimits) -> bool:
    first = group[0].row
    if line.row is None or first is None or len(group) >= limits.max_decisions:
        return False
    is_same_state = serialise(line.row.state) == serialise(first.state)
    return is_same_state and line.id not in {other.id for other in group}


def _records(group: list[_Line], run: _Run) -> list[Result]:
    """Return one record per line of *group*, in order."""
    # A row that is scored alone meets the same checks there.
    checked = [_checked(line, run) for line in group] if len(group) > 1 else group
    rows = [line.row for line in checked if line.row is not None]
    scored = iter(_scored(rows, run))
    records: list[Result] = []
    for line in checked:
        outcome = line.error if line.row is None else next(scored)
        records.append(_error_record(line, outcome) if isinstance(outcome, SteelyardError) else outcome or {})
    return records


def _checked(line: _Line, run: _Run) -> _Line:
    """Return *line*, or its error where its prompt breaks a rule: one bad row must not spoil its whole group."""
    row = line.row
    if row is None:
        return line
    try:
        run.thread.submit(
            lambda engine: encode_row(row, tokenizer=engine.tokenizer, max_tokens=run.limits.max_tokens)
        ).result()
    except DecideError as error:
        return _Line(number=line.number, id=line.id, row=None, error=error)
    return line


def _scored(rows: list[Row], run: _Run) -> Sequence[Result | DecideError]:
    """Return for each of *rows* its result or error. Rows that fail together are scored again, each alone."""
    if not rows:
        return []
    try:
        if run.mode == "direct":
            return [
                run.thread.submit(lambda e: score_direct(rows[0], engine=e, max_tokens=run.limits.max_tokens)).result()
            ]
        return run.thread.submit(lambda e: score_shared(rows, engine=e, max_tokens=run.limits.max_tokens)).result()[0]
    except DecideError as error:
        if len(rows) == 1:
            return [error]
    return [_scored([row], run)[0] for row in rows]


def _error_record(line: _Line, error: SteelyardError) -> Result:
    return {"id": line.id, "line": line.number, "error": {"code": error.code, "message": str(error)}}


def _json_line(record: Result) -> bytes:
    return json.dumps(record, ensure_ascii=False, allow_nan=False).encode("utf-8") + b"\n"
