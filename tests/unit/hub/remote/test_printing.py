from __future__ import annotations

import json

import pytest

from steelyard.client import Page
from steelyard.hub.remote.printing import print_issued, print_json, print_page, print_thing

CSI = "\x9b31m"


def test_a_table_is_as_wide_as_its_cells(capsys):
    items = [{"slug": "a", "is_active": True, "deployment": None}, {"slug": "long-one", "is_active": False}]
    print_page(Page(items, 2, 0, has_more=False), columns=("slug", "is_active", "deployment"), as_json=False)
    assert capsys.readouterr().out.splitlines() == [
        "slug      is_active  deployment",
        "a         yes        -",
        "long-one  no         -",
    ]


@pytest.mark.parametrize("value", [f"a{CSI}", [f"a{CSI}"], {f"a{CSI}": 1}, "a\nb"])
def test_nothing_steers_the_terminal(capsys, value):
    print_thing({"text": value}, as_json=False)
    print_page(Page([{"text": value}], 1, 0, has_more=False), columns=("text",), as_json=False)
    print_json(value)
    written = capsys.readouterr().out
    assert "\x9b" not in written
    assert all(line.isprintable() for line in written.splitlines())


def test_a_table_shows_a_tenth_of_a_millisecond(capsys):
    items = [{"ms": value} for value in (34.80433000, 0.03395099702174775, 0.0, 60.0)]
    print_page(Page(items, 4, 0, has_more=False), columns=("ms",), as_json=False)
    assert capsys.readouterr().out.split() == ["ms", "34.8", "0.034", "0", "60.0"]


def test_json_is_the_whole_page(capsys):
    print_page(Page([{"a": "ü"}], 1, 3, has_more=True), columns=("a",), as_json=True)
    seen = capsys.readouterr()
    assert json.loads(seen.out) == {"items": [{"a": "ü"}], "limit": 1, "offset": 3, "has_more": True}
    assert seen.err == "There are more: add --offset 4\n"


def test_an_empty_thing_is_nothing(capsys):
    print_thing({}, as_json=False)
    assert capsys.readouterr().out == ""


def test_an_issued_secret_as_json_is_the_whole_answer(capsys):
    issued = {"credential": {"public_id": "x", "name": "n"}, "secret": "s"}
    print_issued(issued, as_json=True)
    assert json.loads(capsys.readouterr().out) == issued
