from __future__ import annotations

import math
from typing import Any

import pytest
from tests.unit.decide.makers import fields

from steelyard.decide.domain.errors import InvalidRequest
from steelyard.decide.domain.rows import Option, check_state, parse_row

NONEMPTY = "id and question must be nonempty strings"
STATE = "state must be a nonempty string, object, or array"
FINITE = "state must be finite JSON-compatible data"
COUNT = "options must contain 2-16 entries"
SHAPE = "Each option needs string id and description fields"
UNIQUE = "Option IDs must be unique"


def some_options(count: int, **changes: object) -> list[Any]:
    return [{"id": f"o{i}", "description": f"Option {i}"} | changes for i in range(count)]


NO_STRINGS: list[Any] = ["", 1, None, ["r"], True]
NO_STATES: list[Any] = ["", {}, [], None, 0, 1, 1.5, True, ("a",)]
NOT_FINITE: list[Any] = [math.nan, math.inf, -math.inf, {1, 2}, b"raw"]
NO_OPTIONS: list[Any] = [None, "B", ["id"], {}, {"id": "x"}]
NO_LISTS: list[Any] = [None, "AB", {"a": 1, "b": 2}, tuple(some_options(2))]


def refusal(row: dict) -> str:
    with pytest.raises(InvalidRequest) as caught:
        parse_row(row)
    assert isinstance(caught.value, ValueError)
    return str(caught.value)


def test_a_valid_row_keeps_every_field_and_the_callers_order():
    row = parse_row(fields(state={"b": 1, "a": [1.0, True, None]}))
    assert (row.id, row.question) == ("r1", "Can the lift be used?")
    assert list(row.state) == ["b", "a"]  # type: ignore[call-overload]  # It is the dict that went in.
    assert row.options == (Option("yes", "It can"), Option("no", "It cannot"))
    assert row.option_ids == ["yes", "no"]


def test_further_keys_are_ignored():
    row = parse_row(fields(label=3, options=[{**option, "weight": 1} for option in fields()["options"]]))
    assert row == parse_row(fields())


@pytest.mark.parametrize(
    ("row", "text"),
    [
        ({}, "Row is missing fields: ['id', 'options', 'question', 'state']"),
        ({"state": "s", "id": "r"}, "Row is missing fields: ['options', 'question']"),
        *[
            ({k: v for k, v in fields().items() if k != name}, f"Row is missing fields: ['{name}']")
            for name in fields()
        ],
        *[(fields(**{name: value}), NONEMPTY) for name in ("id", "question") for value in NO_STRINGS],
        *[(fields(state=value), STATE) for value in NO_STATES],
        *[(fields(state=[value]), FINITE) for value in NOT_FINITE],
        (fields(state={"deep": {"er": math.nan}}), FINITE),
        *[(fields(options=some_options(count)), COUNT) for count in (0, 1, 17)],
        *[(fields(options=value), COUNT) for value in NO_LISTS],
        *[(fields(options=[*some_options(1), value]), SHAPE) for value in NO_OPTIONS],
        *[(fields(options=some_options(2, **{name: 1})), SHAPE) for name in ("id", "description")],
        *[(fields(options=some_options(2, **{name: None})), SHAPE) for name in ("id", "description")],
        (fields(options=some_options(3, id="same")), UNIQUE),
    ],
)  # fmt: skip
def test_a_broken_rule_is_reported_with_its_text(row, text):
    assert refusal(row) == text


def test_the_first_broken_rule_is_reported():
    """Each row breaks one rule more than the one after it, in the contract's order backwards."""
    broken: dict = fields(id="", state="", options=[])
    del broken["question"]
    assert refusal(broken) == "Row is missing fields: ['question']"
    broken["question"] = "Q?"
    assert refusal(broken) == NONEMPTY
    broken["id"] = "r1"
    assert refusal(broken) == STATE
    broken["state"] = [math.nan]
    assert refusal(broken) == FINITE
    broken["state"] = ["fine"]
    assert refusal(broken) == COUNT
    broken["options"] = [{"id": "o", "description": "d"}, {"id": "o", "description": 1}]
    assert refusal(broken) == SHAPE
    broken["options"][1]["description"] = "d"
    assert refusal(broken) == UNIQUE


@pytest.mark.parametrize("count", [2, 16])
def test_two_to_sixteen_options_pass(count):
    assert len(parse_row(fields(options=some_options(count))).options) == count


def test_an_option_may_have_an_empty_id_and_description():
    row = parse_row(fields(options=[{"id": "", "description": ""}, {"id": "x", "description": ""}]))
    assert row.option_ids == ["", "x"]


@pytest.mark.parametrize("state", ["s", " ", {"": None}, [None], [[]], [0], {"a": 10**400}])
def test_any_nonempty_string_object_or_array_is_a_state(state):
    assert parse_row(fields(state=state)).state == state


def test_a_state_nested_too_deep_to_serialise_is_no_json_data():
    state: list = []
    for _ in range(100_000):
        state = [state]
    assert refusal(fields(state=state)) == FINITE


def test_a_state_that_holds_itself_is_no_json_data():
    state: list = [1]
    state.append(state)
    assert refusal(fields(state=state)) == FINITE


def test_a_state_that_was_checked_already_is_not_checked_again():
    assert parse_row(fields(state=""), state_is_checked=True).state == ""
    with pytest.raises(InvalidRequest, match="state must be a nonempty"):
        check_state("")
