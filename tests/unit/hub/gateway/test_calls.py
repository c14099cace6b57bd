from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.hub.gateway.makers import identity

from steelyard.hall.canonical import sha256_of_json
from steelyard.hub.gateway.domain.calls import MOST_INPUTS, Call, check_dimensions, prompted, read_call
from steelyard.hub.gateway.domain.errors import InvalidCall

BODY = {"model": "stable", "input": "a"}


def test_a_lone_text_is_a_query_in_floats():
    assert read_call(BODY) == Call(model="stable", inputs=("a",), input_type="query", encoding_format="float")


def test_every_field_is_read_and_user_changes_nothing():
    body = {"model": "next", "input": ["a", "b"], "encoding_format": "base64", "dimensions": 4, "user": {"any": 1}}
    call = read_call({**body, "input_type": "document"})
    assert call == Call("next", ("a", "b"), input_type="document", encoding_format="base64", dimensions=4)


def test_a_field_that_is_null_is_absent():
    nulls = dict.fromkeys(("encoding_format", "dimensions", "input_type", "user", "truncate"))
    assert read_call({**BODY, **nulls}) == read_call(BODY)


@pytest.mark.parametrize(
    ("change", "field", "words"),
    [
        ({"model": None}, "model", "name one of your routes"),
        ({"model": ""}, "model", "name one of your routes"),
        ({"model": 1}, "model", "name one of your routes"),
        ({"input": None}, "input", "a text, or a list of texts"),
        ({"input": []}, "input", "not empty"),
        ({"input": 7}, "input", "a text, or a list of texts"),
        ({"input": {"a": 1}}, "input", "a text, or a list of texts"),
        ({"input": ""}, "input", "item 0 is empty"),
        ({"input": ["a", ""]}, "input", "item 1 is empty"),
        ({"input": ["a", None]}, "input", "item 1 is none"),
        ({"input": ["a", 1.5]}, "input", "item 1 is none"),
        ({"input": [1, 2]}, "input", "takes no token arrays"),
        ({"input": [[1, 2]]}, "input", "takes no token arrays"),
        ({"input": ["a"] * (MOST_INPUTS + 1)}, "input", "2049 texts; send at most 2048"),
        ({"encoding_format": "int8"}, "encoding_format", "float or base64"),
        ({"encoding_format": ["float"]}, "encoding_format", "float or base64"),
        ({"input_type": "search_query"}, "input_type", "query or document"),
        ({"dimensions": "4"}, "dimensions", "an integer"),
        ({"dimensions": True}, "dimensions", "an integer"),
        ({"truncate": True}, "truncate", "no field of this endpoint"),
        ({"x" * 100: 1}, "x" * 63 + "…", "no field of this endpoint"),
    ],
)
def test_what_breaks_a_rule_is_refused_and_its_field_named(change, field, words):
    with pytest.raises(InvalidCall, match=words) as refused:
        read_call({**BODY, **change})
    assert refused.value.field == field


@pytest.mark.parametrize("body", [None, [], "a", 1])
def test_a_body_that_is_no_object_is_refused(body):
    with pytest.raises(InvalidCall, match="JSON object"):
        read_call(body)


def test_as_many_texts_as_the_limit_are_taken():
    assert len(read_call({**BODY, "input": ["a"] * MOST_INPUTS}).inputs) == MOST_INPUTS


@given(st.text(min_size=1))
def test_a_lone_text_has_the_digest_of_its_one_item_list(text):
    alone, listed = read_call({**BODY, "input": text}), read_call({**BODY, "input": [text]})
    assert alone.input_sha256 == listed.input_sha256 == sha256_of_json([text])


def test_the_digest_is_of_the_text_as_received():
    digests = {Call("m", (text,)).input_sha256 for text in ("a", " a", "a ", "A", "q: a", "á", "a\u0301")}
    assert len(digests) == 7


def test_a_longer_list_has_the_digest_of_the_list():
    assert Call("m", ("a", "b")).input_sha256 == sha256_of_json(json.loads('["a", "b"]'))


def test_the_inputs_type_picks_the_prompt():
    assert prompted(Call("m", ("a", "b")), identity()) == ["q: a", "q: b"]
    assert prompted(Call("m", ("a",), input_type="document"), identity()) == ["d: a"]


def test_only_the_identitys_own_dimension_may_be_asked_for():
    check_dimensions(Call("m", ("a",), dimensions=4), identity())
    check_dimensions(Call("m", ("a",)), identity())
    with pytest.raises(InvalidCall, match="dimensions is 3, but this route's vectors have 4") as refused:
        check_dimensions(Call("m", ("a",), dimensions=3), identity())
    assert refused.value.field == "dimensions"
