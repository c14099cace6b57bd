from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from steelyard.decide.domain.arithmetic import argmax, softmax
from steelyard.decide.domain.calibration import calibrate, parse_table, parse_workload
from steelyard.decide.domain.errors import InvalidRequest

RANGE = "gives 'triage' a temperature that is not a number from 0.05 to 20"


def refusal(text: str) -> str:
    with pytest.raises(ValueError, match=r".") as caught:
        parse_table(text)
    return str(caught.value)


def test_a_table_is_an_object_of_temperatures():
    assert parse_table('{"triage": 1.3, "größe": 2, "": 0.05, "hot": 20}') == {
        "triage": 1.3,
        "größe": 2.0,
        "": 0.05,
        "hot": 20.0,
    }
    assert all(type(value) is float for value in parse_table('{"a": 2}').values())
    assert parse_table("{}") == {}


@pytest.mark.parametrize(
    "value",
    ["0.0499", "20.0001", "0", "-1", "true", "false", "null", '"1.3"', "[1.3]", "{}", "NaN", "Infinity", "-Infinity",
     "1e999", "1" + "0" * 400, "1" * 5000, "-" + "1" * 5000],
)  # fmt: skip
def test_a_temperature_is_a_number_in_the_range(value):
    assert refusal(f'{{"triage": {value}}}') == RANGE


def test_a_repeated_key_is_refused():
    assert refusal('{"a": 1, "triage": 1, "triage": 1}') == "repeats the key 'triage'"


@pytest.mark.parametrize("text", ["[]", "1", "null", '"x"', "true"])
def test_a_table_that_is_no_object_is_refused(text):
    assert refusal(text) == 'must be a JSON object such as {"triage": 1.3}'


@pytest.mark.parametrize("text", ["", "{", "triage: 1.3", '{"a": 1,}', "{'a': 1}", "{} {}"])
def test_a_text_that_is_no_json_is_refused(text):
    assert refusal(text).startswith("is not JSON: ")


def test_a_nest_too_deep_is_refused():
    assert refusal("[" * 200_000) == "is nested too deep for a table of workloads and temperatures"


def test_no_workload_means_none():
    assert parse_workload(None, table={"triage": 1.3}) is None


def test_a_known_workload_is_itself():
    assert parse_workload("triage", table={"triage": 1.3}) == "triage"


@pytest.mark.parametrize("value", ["other", "", 1, True, ["triage"], {"triage": 1}])
def test_an_unknown_workload_is_refused_with_the_known_ones(value):
    with pytest.raises(InvalidRequest, match=r"^Unknown workload; known workloads: a, triage$"):
        parse_workload(value, table={"triage": 1.3, "a": 1.0})


def test_without_a_table_every_workload_is_unknown():
    with pytest.raises(InvalidRequest, match=r"known workloads: none is configured"):
        parse_workload("triage", table={})


def test_the_list_of_known_workloads_is_cut_short():
    with pytest.raises(InvalidRequest) as caught:
        parse_workload("x", table={f"workload-{i}": 1.0 for i in range(1000)})
    assert len(str(caught.value)) < 260


grid = st.lists(st.integers(-(2**15), 2**15 - 1).map(lambda step: step / 2**10), min_size=2, max_size=16)


@given(grid, st.floats(0.05, 20))
def test_calibration_adds_one_key_and_changes_nothing_else(logits, temperature):
    result = {"id": "r", "option_logits": logits, "probabilities": softmax(logits)}
    before = json.dumps(result)
    calibrated = calibrate(result, workload="triage", temperature=temperature)
    assert json.dumps(result) == before
    own = calibrated.pop("calibrated")
    assert calibrated == result
    assert own == {
        "workload": "triage",
        "temperature": temperature,
        "probabilities": softmax([logit / temperature for logit in logits]),
    }
    assert list(own) == ["workload", "temperature", "probabilities"]
    assert argmax(own["probabilities"]) == argmax(logits)


def test_a_workload_that_no_answer_could_name_is_refused():
    assert "lone surrogate" in refusal('{"\\ud800": 1}')
