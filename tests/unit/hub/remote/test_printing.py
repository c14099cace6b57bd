from __future__ import annotations

import json
from uuid import UUID

import pytest

from steelyard.client import Page
from steelyard.hub.remote.nouns import NOUNS
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


REQUEST = {
    "request_id": "0d9cd3f54d2f4a608a3b0a4f8d2b6f11",
    "started_at": "2026-11-30T16:17:49.123456Z",
    "status": "completed",
    "input_count": 3,
    "tokens": None,
    "latency_ms": 34.75063199948636,
    "error_code": None,
}


def printed(capsys, *items, columns=None) -> list[str]:
    """Return the lines of a table with all fields of the first item, or with these."""
    print_page(Page(list(items), 50, 0, has_more=False), columns=columns or tuple(items[0]), as_json=False)
    lines: list[str] = capsys.readouterr().out.splitlines()
    return lines


def test_a_table_of_requests_is_read_and_its_json_is_exact(capsys):
    assert printed(capsys, REQUEST, {**REQUEST, "latency_ms": None}) == [
        "request_id                        started_at            status     inputs  tokens  ms    error",
        "0d9cd3f54d2f4a608a3b0a4f8d2b6f11  2026-11-30T16:17:49Z  completed  3       -       34.8  -",
        "0d9cd3f54d2f4a608a3b0a4f8d2b6f11  2026-11-30T16:17:49Z  completed  3       -       -     -",
    ]
    print_page(Page([REQUEST], 50, 0, has_more=False), columns=(), as_json=True)
    assert "34.75063199948636" in capsys.readouterr().out


def test_a_wide_table_is_cut_to_a_hundred_columns_but_for_what_people_copy(capsys):
    case_id = str(UUID(int=1))
    case = {"case_id": case_id, "critical": True, "query": "q" * 200, "labels": {"l" * 200: 1}}
    heading, line = printed(capsys, case)
    assert len(line) == 100
    assert line.startswith(case_id)
    assert heading.index("labels") == line.index('{"')
    assert line.count("…") == 2


@pytest.mark.parametrize("noun", NOUNS, ids=[noun.name for noun in NOUNS])
def test_no_heading_and_no_id_is_ever_cut(capsys, noun):
    item = {column: str(UUID(int=1)) if column.endswith("id") else "x" * 64 for column in noun.columns}
    heading, line = printed(capsys, item, columns=noun.columns)
    assert len(heading.split()) == len(noun.columns)
    assert "…" not in heading
    assert line.startswith(item[noun.columns[0]])


def test_a_time_is_told_to_the_second_whatever_its_zone(capsys):
    assert printed(capsys, {"at": "2026-11-30T16:17:49.5+00:00"})[1] == "2026-11-30T16:17:49+00:00"
    assert printed(capsys, {"created_at": "2026-11-30T16:17:49Z"})[1] == "2026-11-30T16:17:49Z"
    assert printed(capsys, {"revoked_at": None})[1] == "-"


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
