"""Reports as they look, byte for byte: golden files. Run this file to write them anew, and look at the difference."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.unit.hub.reports.comparisons import cases, comparison, completed

from steelyard.hub.reports.formats import FORMATS
from steelyard.hub.reports.reading import report_of

FOLDER = Path(__file__).parents[3] / "golden" / "reports"
ENDINGS = {"text": "txt", "markdown": "md", "json": "json", "html": "html"}
REPORTS = {
    "completed": (completed(), cases()),
    "interrupted": (comparison("interrupted", error_code="COMPARISON_CLAIM_EXPIRED"), []),
}
FILES = [(name, form) for name in REPORTS for form in FORMATS if name == "completed" or form == "text"]


def told(name: str, form: str) -> bytes:
    return FORMATS[form](report_of(*REPORTS[name])).encode()


def golden(name: str, form: str) -> Path:
    return FOLDER / f"{name}.{ENDINGS[form]}"


@pytest.mark.parametrize(("name", "form"), FILES)
def test_a_report_is_the_golden_one(name, form):
    assert told(name, form) == golden(name, form).read_bytes()


def test_every_format_has_its_golden_file():
    assert {path.name for path in FOLDER.iterdir()} == {golden(name, form).name for name, form in FILES}


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    for a_name, a_form in FILES:
        golden(a_name, a_form).write_bytes(told(a_name, a_form))
