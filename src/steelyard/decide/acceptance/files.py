"""The files of an acceptance run: rows, a reference's predictions, and what the passes wrote.

Everything is read and checked before a model loads. Messages name lines and row ids, never a row's text.
"""

from __future__ import annotations

import hashlib
import json
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

from steelyard.decide.acceptance.errors import AcceptanceRefused
from steelyard.decide.acceptance.predictions import Prediction, Scored, parse_prediction
from steelyard.decide.batch import count_rows
from steelyard.decide.domain.rows import Row, parse_row
from steelyard.hall.errors import SteelyardError
from steelyard.hall.texts import shorten
from steelyard.web.bodies import parse_json

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

FIRST_OUTPUT = "direct-1.jsonl"
SHUFFLED_ROWS = "shuffled-rows.jsonl"
_QUOTED_ROWS = 3


@dataclass(frozen=True)
class RowFile:
    """Rows with unique ids, at least one; *labels* has the right option's id of each labelled row."""

    path: Path
    sha256: str
    rows: tuple[Row, ...]
    labels: Mapping[str, str]


@dataclass(frozen=True)
class Reference:
    """Another scorer's prediction for each row; *model* is None where they are of several models."""

    path: Path
    sha256: str
    predictions: Mapping[str, Prediction]
    model: Mapping[str, object] | None


def read_rows(path: Path) -> RowFile:
    """Return the rows in *path*; raises AcceptanceRefused or BatchRefused unless every line is a row of its own id."""
    rows: dict[str, Row] = {}
    labels: dict[str, str] = {}
    sha256, lines = _read(path)
    for where, fields in lines:
        try:
            row = parse_row(fields)
            label = _label(fields, row)
        except ValueError as error:
            raise AcceptanceRefused(f"{where}: {error}") from None
        if row.id in rows:
            raise AcceptanceRefused(f"{where}: the id {shorten(row.id)} is not the first; give every row its own")
        rows[row.id] = row
        labels |= {} if label is None else {row.id: label}
    if not rows:
        raise AcceptanceRefused(f"{path.name} holds no rows")
    return RowFile(path=path, sha256=sha256, rows=tuple(rows.values()), labels=labels)


def read_reference(path: Path, rows: Sequence[Row]) -> Reference:
    """Return the predictions in *path* in the order of *rows*; raises AcceptanceRefused unless there is one for each.

    A prediction's options may be in another order than its row's, but have the same ids.
    """
    predictions: dict[str, Prediction] = {}
    models: list[object] = []
    sha256, lines = _read(path)
    for where, record in lines:
        prediction = _prediction(where, record)
        if prediction.id in predictions:
            raise AcceptanceRefused(f"{where}: {shorten(prediction.id)} has a prediction already; keep one of them")
        predictions[prediction.id] = prediction
        models.append(record.get("model"))
    _check_same_rows(path.name, predictions, rows)
    model = models[0] if all(other == models[0] for other in models) else None
    return Reference(
        path=path,
        sha256=sha256,
        predictions={row.id: predictions[row.id] for row in rows},
        model=model if isinstance(model, dict) else None,
    )


def read_pass(path: Path) -> Scored:
    """Return what a pass wrote; raises AcceptanceRefused where a line is no result and no error record."""
    predictions: dict[str, Prediction] = {}
    failures: dict[str, str] = {}
    for where, record in _read(path)[1]:
        error = record.get("error")
        if isinstance(error, dict):
            failures[str(record.get("id"))] = str(error.get("code"))
        else:
            predictions[str(record.get("id"))] = _prediction(where, record)
    return Scored(name=path.name, predictions=predictions, failures=failures)


def write_shuffled_rows(path: Path, rows: Sequence[Row]) -> None:
    """Write *rows* with their descriptions rotated by one: the first option gets the second's, the last the first's.

    The file appears whole or not at all; an interrupted run writes the same bytes again.
    """
    unfinished = path.with_suffix(".partial")
    try:
        with unfinished.open("w", encoding="utf-8", newline="\n") as file:
            file.writelines(json.dumps(_shuffled(row), ensure_ascii=False) + "\n" for row in rows)
        unfinished.replace(path)
    except OSError as error:
        raise AcceptanceRefused(f"cannot write {path}: {error.strerror}; put that right and run it again") from None


def open_folder(folder: Path) -> None:
    """Make *folder* where it is missing; raises AcceptanceRefused where it holds files but no acceptance run."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        names = os.listdir(folder)
    except OSError as error:
        raise AcceptanceRefused(f"cannot write to {folder}: {error.strerror}; name another --output") from None
    if names and FIRST_OUTPUT not in names:
        raise AcceptanceRefused(f"{folder} holds files that are not of an acceptance run; name a new --output")


def _shuffled(row: Row) -> dict[str, object]:
    descriptions = [option.description for option in row.options]
    rotated = [*descriptions[1:], descriptions[0]]
    options = [{"id": i, "description": text} for i, text in zip(row.option_ids, rotated, strict=True)]
    return {"id": row.id, "state": row.state, "question": row.question, "options": options}


def _read(path: Path) -> tuple[str, Iterator[tuple[str, dict[str, object]]]]:
    """Return the file's SHA-256 and, line by line, where each object stands and the object."""
    count_rows(path)  # It refuses in words what is missing or no file.
    content = path.read_bytes()
    return hashlib.sha256(content).hexdigest(), _objects(path.name, content)


def _objects(name: str, content: bytes) -> Iterator[tuple[str, dict[str, object]]]:
    for number, line in enumerate(content.split(b"\n"), start=1):
        if line.strip():
            where = f"{name}, line {number}"
            try:
                value = parse_json(line, what="The line")
            except SteelyardError as error:
                raise AcceptanceRefused(f"{where}: {error}") from None
            if not isinstance(value, dict):
                raise AcceptanceRefused(f"{where}: The line must be a JSON object")
            yield where, value


def _label(fields: Mapping[str, object], row: Row) -> str | None:
    label = fields.get("label")
    if label is None:
        return None
    if isinstance(label, bool) or not isinstance(label, int) or not 0 <= label < len(row.options):
        raise ValueError(f"label must be the right option's index, from 0 to {len(row.options) - 1}")
    return row.options[label].id


def _prediction(where: str, record: Mapping[str, object]) -> Prediction:
    try:
        return parse_prediction(record)
    except ValueError as error:
        raise AcceptanceRefused(f"{where} is no prediction: {error}") from None


def _check_same_rows(name: str, predictions: Mapping[str, Prediction], rows: Sequence[Row]) -> None:
    ids = {row.id for row in rows}
    if missing := [row.id for row in rows if row.id not in predictions]:
        raise AcceptanceRefused(f"{name} has no prediction for {_quoted(missing)}; give the one of these rows")
    if extra := [row for row in predictions if row not in ids]:
        raise AcceptanceRefused(f"{name} has predictions for {_quoted(extra)}, not among the rows; take them out")
    if other := [row.id for row in rows if {*row.option_ids} != {*predictions[row.id].option_ids}]:
        raise AcceptanceRefused(f"{name} has other option ids than the rows for {_quoted(other)}; it is of other rows")


def _quoted(ids: Sequence[str]) -> str:
    rest = f" and {len(ids) - _QUOTED_ROWS} more" if len(ids) > _QUOTED_ROWS else ""
    return ", ".join(map(shorten, ids[:_QUOTED_ROWS])) + rest
