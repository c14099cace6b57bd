from __future__ import annotations

import json

import pytest

from steelyard.hub.remote.cases import read_json_object, read_revision
from steelyard.hub.remote.errors import BadFile


@pytest.fixture
def file(tmp_path):
    """Write bytes into a file, and give its path."""

    def write(content: bytes):
        path = tmp_path / "file"
        path.write_bytes(content)
        return path

    return write


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"{", "is no JSON"),
        (b"[" * 100_000, "is no JSON"),
        (b"[1]", "holds no JSON object"),
        (b"\xff", "is not UTF-8: byte 0 is invalid"),
        (b'{"top_k": 1, "top_k": 2}', '"top_k" stands twice'),
    ],
)
def test_settings_are_one_json_object(file, content, reason):
    with pytest.raises(BadFile, match=reason):
        read_json_object(file(content))


def test_settings_may_begin_with_a_byte_order_mark(file):
    assert read_json_object(file(b'\xef\xbb\xbf{"top_k": 1}')) == {"top_k": 1}


def test_a_file_that_is_not_there_is_told(tmp_path):
    with pytest.raises(BadFile, match="cannot be read: No such file"):
        read_json_object(tmp_path / "none")


def test_many_faults_are_counted_and_the_first_are_told(file):
    with pytest.raises(BadFile) as bad:
        read_revision(file(b"{\n" * 25), settings={"top_k": 1})
    lines = str(bad.value).splitlines()
    assert len(lines) == 22
    assert lines[-1].strip() == "and 6 more"  # The 25 lines, and that no case is left.


def test_a_number_that_is_no_number_is_a_fault_of_its_line(file):
    line = json.dumps({"labels": {"a": 1}, "label_provenance": {"x": float("nan")}})
    with pytest.raises(BadFile, match=r"line 1: label_provenance: .*holds NaN"):
        read_revision(file(line.encode()), settings={"top_k": 1})
