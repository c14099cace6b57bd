"""Broken rules are told without a word of what was sent."""

from __future__ import annotations

import re
import string
from typing import get_args
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, TypeAdapter, ValidationError
from pydantic_core.core_schema import ErrorType

from steelyard.hub.catalog import schemas
from steelyard.hub.rest import breaches
from steelyard.hub.rest.breaches import breach

NAMES = {"body", "slug", "name", "project_id"}
CANARY = "canary-steelyard_operator_0a1B2c3D4e5F"
MODELS: list[type[BaseModel]] = [
    model
    for model in vars(schemas).values()
    if isinstance(model, type) and issubclass(model, BaseModel) and model.__module__ == schemas.__name__
]
odd = st.one_of(st.just(CANARY), st.just([CANARY]), st.just({CANARY: CANARY}), st.none(), st.integers(), st.floats())


def told(model: type[BaseModel], value: object, *, names: set[str] | None = None) -> list[dict[str, str]]:
    """Return what is told of *value*, which is no *model*."""
    with pytest.raises(ValidationError) as refused:
        TypeAdapter(model).validate_python(value)
    return [breach(error, names=names or NAMES) for error in refused.value.errors()]


def test_the_place_has_only_names_that_requests_have():
    assert told(schemas.NewProject, {"slug": "a", "name": "A", CANARY: 1}) == [
        {"where": "*", "rule": "is no field of this request; /openapi.json lists those that are"}
    ]


def test_positions_are_told():
    error = {"type": "missing", "loc": ("body", "cases", 3, "query"), "input": CANARY}
    assert breach(error, names={"body", "cases", "query"})["where"] == "body.cases.3.query"


@given(data=st.data())
@pytest.mark.parametrize("model", MODELS, ids=lambda model: model.__name__)
def test_no_answer_repeats_a_value_or_a_name_that_was_sent(model, data):
    names = set(model.model_fields)
    value = data.draw(st.dictionaries(st.sampled_from([*sorted(names), CANARY]), odd, min_size=1) | odd)
    try:
        TypeAdapter(model).validate_python(value)
    except ValidationError as error:
        for item in error.errors():
            answer = breach(item, names=names)
            assert "canary" not in str(answer)
            assert answer["rule"] != "is not valid", item["type"]


def test_a_uuid_is_not_told_by_its_letters():
    """Pydantic's own message quotes the first letter that is wrong."""
    [answer] = told(schemas.NewProjectBinding, {"project_id": "zecret"})
    assert answer == {"where": "project_id", "rule": "must be a UUID"}


def test_our_own_rules_are_told_in_their_own_words():
    [answer] = told(schemas.NewProject, {"slug": "a", "name": "A\x00"})
    assert answer == {"where": "name", "rule": "holds a control character or an invisible one"}


def test_a_rule_that_is_not_in_the_table_says_nothing_of_its_own():
    assert breach({"type": "url_parsing", "loc": (), "ctx": {"error": CANARY}}, names=()) == {
        "where": "", "rule": "is not valid"
    }  # fmt: skip


def test_every_rule_in_the_table_is_one_of_pydantics_and_uses_the_schemas_numbers_only():
    assert set(breaches._SENTENCES) <= set(get_args(ErrorType))
    for sentence in breaches._SENTENCES.values():
        fields = {name for _, name, _, _ in string.Formatter().parse(sentence) if name}
        assert fields <= {"ge", "gt", "le", "lt", "min_length", "max_length", "pattern", "expected"}


def test_places_are_short_whatever_was_sent():
    error = {"type": "missing", "loc": tuple("x" * 10_000 for _ in range(3)), "input": None}
    assert breach(error, names=())["where"] == "*.*.*"


def test_a_uuid_as_such_is_no_name():
    assert re.fullmatch(r"\*", breach({"type": "missing", "loc": (str(UUID(int=1)),)}, names=NAMES)["where"])
