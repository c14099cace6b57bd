from __future__ import annotations

import hashlib
import json

import pytest
from tests.unit.decide.makers import fields

from steelyard.decide.acceptance.errors import AcceptanceRefused
from steelyard.decide.acceptance.files import open_folder, read_pass, read_reference, read_rows, write_shuffled_rows
from steelyard.decide.batch import BatchRefused
from steelyard.decide.domain.rows import parse_row

MODEL = {"source": "m", "revision": None}
SHA256 = "ab" * 32


def result(**changes):
    own = {
        "id": "r1", "option_ids": ["yes", "no"], "probabilities": [0.75, 0.25], "option_logits": [2.0, 1.0],
        "prompt_sha256": SHA256, "model": MODEL,
    }  # fmt: skip
    return own | changes


@pytest.fixture
def write(tmp_path):
    def write(*lines, name="file.jsonl"):
        path = tmp_path / name
        path.write_bytes(b"".join((x if isinstance(x, bytes) else json.dumps(x).encode()) + b"\n" for x in lines))
        return path

    return write


def refusal(read, *arguments):
    with pytest.raises((AcceptanceRefused, BatchRefused)) as caught:
        read(*arguments)
    return str(caught.value)


def test_rows_come_in_order_with_the_labels_of_those_that_have_one(write):
    path = write(fields(id="雪", label=1), b"", fields(id="b", label=None), fields(id="c"), fields(id="d", label=0))
    file = read_rows(path)
    assert [row.id for row in file.rows] == ["雪", "b", "c", "d"]
    assert file.labels == {"雪": "no", "d": "yes"}
    assert file.sha256 == hashlib.sha256(path.read_bytes()).hexdigest()


@pytest.mark.parametrize(
    ("line", "text"),
    [
        (b"nonsense", "file.jsonl, line 2: The line is not JSON: Expecting value at character 0"),
        (b"[1]", "file.jsonl, line 2: The line must be a JSON object"),
        ({"id": "x"}, "file.jsonl, line 2: Row is missing fields: ['options', 'question', 'state']"),
        (fields(id="r1"), "file.jsonl, line 2: the id r1 is not the first; give every row its own"),
        (fields(id="x", label=2), "file.jsonl, line 2: label must be the right option's index, from 0 to 1"),
        (fields(id="x", label=-1), "file.jsonl, line 2: label must be the right option's index, from 0 to 1"),
        (fields(id="x", label=True), "file.jsonl, line 2: label must be the right option's index, from 0 to 1"),
        (fields(id="x", label="yes"), "file.jsonl, line 2: label must be the right option's index, from 0 to 1"),
    ],
)
def test_a_line_that_is_no_row_is_refused_with_its_number(write, line, text):
    assert refusal(read_rows, write(fields(), line)) == text


def test_files_without_rows_or_that_are_none_are_refused(write, tmp_path):
    assert refusal(read_rows, write()) == "file.jsonl holds no rows"
    assert refusal(read_rows, tmp_path / "absent") == f"cannot read {tmp_path / 'absent'}: No such file or directory"
    assert "is no regular file" in refusal(read_rows, tmp_path)


def test_a_reference_is_put_into_the_order_of_the_rows(write):
    rows = [parse_row(fields(id=name)) for name in ("a", "b")]
    other_order = result(id="b", option_ids=["no", "yes"])
    reference = read_reference(write(other_order, result(id="a")), rows)
    assert list(reference.predictions) == ["a", "b"]
    assert reference.predictions["b"].top == "no"
    assert reference.model == MODEL


@pytest.mark.parametrize("other", [{"source": "n"}, None])
def test_a_reference_of_several_models_is_of_none(write, other):
    rows = [parse_row(fields(id=name)) for name in ("a", "b")]
    assert read_reference(write(result(id="a"), result(id="b", model=other)), rows).model is None
    assert read_reference(write(*(result(id=name, model=None) for name in ("a", "b"))), rows).model is None


@pytest.mark.parametrize(
    ("records", "text"),
    [
        ([result(id="a")], "file.jsonl has no prediction for b, c, d and 1 more; give the one of these rows"),
        (
            [result(id=name) for name in "abcdexyz"],
            "file.jsonl has predictions for x, y, z, not among the rows; take them out",
        ),
        ([result(id="a"), result(id="a")], "file.jsonl, line 2: a has a prediction already; keep one of them"),
        (
            [*(result(id=name) for name in "abcd"), result(id="e", option_ids=["yes", "other"])],
            "file.jsonl has other option ids than the rows for e; it is of other rows",
        ),
        (
            [{"id": "a", "error": {"code": "x", "message": "y"}}],
            "file.jsonl, line 1 is no prediction: option_ids must be a list of at least two strings",
        ),
        ([b"{"], "file.jsonl, line 1: The line is not JSON: Expecting property name enclosed in double quotes at"),
    ],
)
def test_a_reference_that_does_not_answer_these_rows_is_refused_in_a_sentence(write, records, text):
    rows = [parse_row(fields(id=name)) for name in "abcde"]
    assert refusal(read_reference, write(*records), rows).startswith(text)


def test_a_pass_has_its_predictions_and_the_codes_of_its_error_records(write):
    failure = {"id": "b", "line": 2, "error": {"code": "out_of_memory", "message": "…"}}
    scored = read_pass(write(result(id="a"), failure, name="direct-1.jsonl"))
    assert (scored.name, list(scored.predictions), scored.failures) == (
        "direct-1.jsonl", ["a"], {"b": "out_of_memory"}
    )  # fmt: skip


def test_descriptions_are_rotated_by_one_and_nothing_else_is(tmp_path):
    options = [{"id": i, "description": text} for i, text in (("a", "first"), ("b", "second"), ("c", "ключ"))]
    row = parse_row(fields(id="雪", state={"z": 1, "a": [1.0]}, options=options))
    write_shuffled_rows(tmp_path / "shuffled.jsonl", [row])
    (line,) = (tmp_path / "shuffled.jsonl").read_bytes().splitlines()
    shuffled = parse_row(json.loads(line))
    assert shuffled.option_ids == row.option_ids
    assert [option.description for option in shuffled.options] == ["second", "ключ", "first"]
    assert (shuffled.id, shuffled.question, json.dumps(shuffled.state)) == (row.id, row.question, json.dumps(row.state))
    assert [path.name for path in tmp_path.iterdir()] == ["shuffled.jsonl"]


def test_shuffled_rows_that_cannot_be_written_are_refused(tmp_path):
    assert "No such file or directory; put that right" in refusal(write_shuffled_rows, tmp_path / "absent" / "x", [])


def test_a_folder_is_made_and_gone_on_with_but_never_somebody_elses(tmp_path):
    folder = tmp_path / "a" / "b"
    open_folder(folder)
    open_folder(folder)
    (folder / "notes.txt").touch()
    assert refusal(open_folder, folder).endswith("holds files that are not of an acceptance run; name a new --output")
    (folder / "direct-1.jsonl").touch()
    open_folder(folder)
    assert "File exists; name another --output" in refusal(open_folder, folder / "notes.txt")
