"""The lists of promises in docs/: every test that they name exists, and every section has promises."""

from __future__ import annotations

import ast
import functools
import re
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).parents[2]
# How many sections each page has, from 0 on; section 0 of the first is the contract's introduction.
SECTIONS = {"contract.md": 10, "contract-embed.md": 4, "contract-hub.md": 7, "contract-comparisons.md": 9}
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


def promises(page: str) -> list[Promise]:
    text = (ROOT / "docs" / page).read_text(encoding="utf-8")
    return [Promise(*row) for row in re.findall(r"^\| (\S+) \| (.+?) \| (.+?) \|$", text, re.MULTILINE)]


EVERY = [pytest.param(promise, id=f"{page} {promise.number}") for page in SECTIONS for promise in promises(page)]


@functools.cache
def functions_in(path: str) -> set[str]:
    """Return the names of the test functions of a file, which is parsed and not run."""
    tree = ast.parse((ROOT / path).read_text(encoding="utf-8"))
    return {node.name for node in tree.body if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")}


@pytest.mark.parametrize("promise", EVERY)
def test_every_promise_names_one_to_three_tests_that_exist(promise):
    if promise.cell in NOT_YET:
        return
    assert "<br>".join(f"`{name}`" for name in promise.tests) == promise.cell
    assert 1 <= len(set(promise.tests)) == len(promise.tests) <= 3
    for name in promise.tests:
        path, _, function = name.partition("::")
        assert function in functions_in(path), name


@pytest.mark.parametrize("page", SECTIONS)
def test_every_line_of_a_table_is_a_promise_or_its_head(page):
    lines = [line for line in (ROOT / "docs" / page).read_text(encoding="utf-8").splitlines() if line[:1] == "|"]
    assert len(lines) == len(promises(page)) + 2 * SECTIONS[page]


@pytest.mark.parametrize(
    ("page", "section"), [(page, section) for page in SECTIONS for section in range(SECTIONS[page])]
)
def test_every_section_has_promises_numbered_in_order_and_most_have_tests(page, section):
    own = [promise for promise in promises(page) if promise.number.partition(".")[0] == str(section)]
    assert [promise.number for promise in own] == [f"{section}.{place}" for place in range(1, len(own) + 1)]
    assert sum(bool(promise.tests) for promise in own) > len(own) / 2


def test_no_promise_is_made_twice():
    texts = [promise.text for page in SECTIONS for promise in promises(page)]
    assert len(set(texts)) == len(texts)
