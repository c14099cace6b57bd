"""The pages about comparisons say what the hub does: walks are walked, tables are asked."""

from __future__ import annotations

import re

import pytest
from tests.comparing import PATH, make_stage
from tests.hub_api import Asked
from tests.unit.test_docs import ROOT, calls_noted, walk

from steelyard.hub.db import tables
from steelyard.hub.db.database import Database
from steelyard.hub.errors import HubError, ResultRefused

PAGE = (ROOT / "docs" / "comparisons.md").read_text(encoding="utf-8")


@pytest.fixture
def stage(sqlite_databases):
    """Give one stage: what the pages say is no matter of the database's kind."""
    with sqlite_databases.fresh() as url:
        database = Database(url)
        asked = Asked(database)
        yield make_stage(asked)
        asked.close()
        database.close()


def section(title: str) -> str:
    return re.split(r"\n##+ ", PAGE.split(f"# {title}\n")[1])[0]


def codes_below(kind: type[HubError]) -> set[str]:
    return {kind.code}.union(*map(codes_below, kind.__subclasses__()))


def test_a_comparison_is_created_through_the_functions_that_the_architecture_names_in_their_order(stage):
    title = "A comparison is created"
    with calls_noted() as called:
        assert stage.operator.post(PATH, **stage.body()).status_code == 201
    assert len(walk(title)) > 10
    assert [name for name in called if name in walk(title)] == walk(title)


def test_a_result_is_published_through_the_functions_that_the_architecture_names_in_their_order(stage):
    title = "A result is published"
    comparison, claim = stage.claimed()
    result = stage.result(claim)
    with calls_noted() as called:
        assert stage.call(comparison, "result", **result).status_code == 200
    assert len(walk(title)) > 10
    assert [name for name in called if name in walk(title)] == walk(title)


def authority() -> list[tuple[str, str, str, list[str]]]:
    """Return each row of the page's table: method, path, name, and the cells."""
    text = PAGE.split("<!-- authority -->\n")[1].split("<!-- end -->")[0]
    rows = re.findall(r"^\| `(\w+) (\S+)` (.+?) \| (.+) \|$", text, re.MULTILINE)
    return [(method, path, name, cells.split(" | ")) for method, path, name, cells in rows]


def test_the_page_lists_every_call_on_comparisons(stage):
    document = stage.asked.ask("GET", "/openapi.json").json()["paths"]
    served = {
        (method.upper(), path.partition(PATH)[2].replace("{comparison_id}", "{id}") or "/")
        for path, methods in document.items()
        if PATH in path
        for method in methods
        if method in ("get", "post")
    }
    assert {(method, path) for method, path, _name, _cells in authority()} == served


def test_each_caller_may_do_what_the_page_says(stage):
    other = stage.operator.make(
        "/service-clients", project_binding_id=stage.ids["project_binding_id"], slug="other", name="Other"
    )
    secret = stage.operator.make(f"/service-clients/{other['id']}/credentials", name="o")["secret"]
    callers = {
        "viewer": stage.asked.caller("viewer"),
        "operator": stage.operator,
        "its consumer": stage.consumer,
        "another client": stage.asked.holder(secret),
        "nobody": stage.asked.holder("steelyard_none"),
    }
    comparison = stage.create()
    for method, path, name, cells in authority():
        url = f"{PATH}{path.replace('{id}', comparison['id']).removesuffix('/')}"
        for (who, caller), cell in zip(callers.items(), cells, strict=True):
            status = (caller.get(url) if method == "GET" else caller.send(url, b"[]")).status_code
            allowed = {200} if method == "GET" else {422}  # The body is read of those alone who may call.
            expected = allowed if cell in ("yes", "its own") else {int(cell)}
            assert status in expected, (name, who)


def test_the_page_has_every_code_of_a_refused_result():
    told = set(re.findall(r"\| `([A-Z_]+)` \|$", section("Evidence"), re.MULTILINE))
    assert told == codes_below(ResultRefused) - {ResultRefused.code}


def test_every_code_that_the_page_names_is_one():
    named = set(re.findall(r"\d\d\d `([A-Z_]+)`", section("What an intent needs")))
    named |= set(re.findall(r"\d\d\d `([A-Z_]+)`", section("Retries")))
    assert len(named) > 8
    assert named <= codes_below(HubError)


def test_every_table_that_the_page_names_is_kept():
    named = re.findall(r"^\| `(\w+)` \|", section("What is kept, and for how long"), re.MULTILINE)
    assert len(named) > 5
    assert set(named) <= set(tables.metadata.tables)
    assert {name for name in tables.metadata.tables if name.startswith(("compar", "evaluation"))} <= set(named)
