"""The list of promises in docs/contract.md: every test that it names exists, and every section has promises."""

from __future__ import annotations

import ast
import functools
import re
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).parents[2]
SECTIONS = range(10)  # Section 0 is the contract's introduction.
NOT_YET = {
    "no such engine in this release",
    "not in this release: the wire formats come later",
}


class Promise(NamedTuple):
    """One row of a table; *tests* are the pytest ids that it names."""

    number: str
    text: str
    cell: str

    @property
    def tests(self) -> list[str]:
        return re.findall(r"`(tests/[^`]+)`", self.cell)


def promises() -> list[Promise]:
    page = (ROOT / "docs" / "contract.md").read_text(encoding="utf-8")
    return [Promise(*row) for row in re.findall(r"^\| (\S+) \| (.+?) \| (.+?) \|$", page, re.MULTILINE)]


@functools.cache
def functions_in(path: str) -> set[str]:
    """Return the names of the test functions of a file, which is parsed and not run."""
    tree = ast.parse((ROOT / path).read_text(encoding="utf-8"))
    return {node.name for node in tree.body if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")}


@pytest.mark.parametrize("promise", promises(), ids=lambda promise: promise.number)
def test_every_promise_names_one_to_three_tests_that_exist(promise):
    if promise.cell in NOT_YET:
        return
    assert "<br>".join(f"`{name}`" for name in promise.tests) == promise.cell
    assert 1 <= len(set(promise.tests)) == len(promise.tests) <= 3
    for name in promise.tests:
        path, _, function = name.partition("::")
        assert function in functions_in(path), name


def test_every_line_of_a_table_is_a_promise_or_its_head():
    lines = [
        line for line in (ROOT / "docs" / "contract.md").read_text(encoding="utf-8").splitlines() if line[:1] == "|"
    ]
    assert len(lines) == len(promises()) + 2 * len(SECTIONS)


@pytest.mark.parametrize("section", SECTIONS)
def test_every_section_has_promises_numbered_in_order_and_most_have_tests(section):
    own = [promise for promise in promises() if promise.number.partition(".")[0] == str(section)]
    assert [promise.number for promise in own] == [f"{section}.{place}" for place in range(1, len(own) + 1)]
    assert sum(bool(promise.tests) for promise in own) > len(own) / 2


def test_no_promise_is_made_twice():
    texts = [promise.text for promise in promises()]
    assert len(set(texts)) == len(texts)
