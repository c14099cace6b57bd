from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from steelyard.embed.domain.errors import InputTooLong, InvalidRequest, UnknownModel
from steelyard.embed.domain.identity import Identity, Pooling
from steelyard.embed.domain.requests import EmbedRequest, Rules, portions, refuse_too_long, request_from, too_long

IDENTITY = Identity(
    model="m", dimension=4, pooling=Pooling.MEAN, is_normalised=True, max_tokens=8, dtype="float32", output="o"
)
RULES = Rules(identity=IDENTITY, max_inputs=3)
BODY = {"model": "m", "input": "a text"}


def test_one_text_is_a_list_of_one():
    assert request_from(BODY, rules=RULES) == EmbedRequest(("a text",), is_base64=False, truncates=False)


def test_texts_keep_their_order():
    assert request_from({**BODY, "input": ["b", "a", "b"]}, rules=RULES).texts == ("b", "a", "b")


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"encoding_format": "base64"}, {"is_base64": True}),
        ({"encoding_format": "float"}, {"is_base64": False}),
        ({"encoding_format": None, "dimensions": None, "truncate": None}, {}),
        ({"truncate": True}, {"truncates": True}),
        ({"dimensions": 4}, {}),
        ({"user": {"any": "thing"}, "unheard_of": 1}, {}),
    ],
)
def test_what_is_taken(changes, expected):
    request = request_from({**BODY, **changes}, rules=RULES)
    assert request == EmbedRequest(("a text",), **({"is_base64": False, "truncates": False} | expected))


@pytest.mark.parametrize(
    ("changes", "param", "message"),
    [
        ({"input": None}, "input", "`input` must be a string or a list of strings"),
        ({"input": {"text": "a"}}, "input", "`input` must be a string or a list of strings"),
        ({"input": []}, "input", "`input` has 0 items; it takes 1 to 3"),
        ({"input": ["a"] * 4}, "input", "`input` has 4 items; it takes 1 to 3"),
        ({"input": ""}, "input", "`input[0]` is an empty string"),
        ({"input": ["a", ""]}, "input", "`input[1]` is an empty string"),
        ({"input": [1, 2]}, "input", "`input[0]` is tokens; this server takes strings only"),
        ({"input": ["a", [1, 2]]}, "input", "`input[1]` is tokens; this server takes strings only"),
        ({"input": ["a", None]}, "input", "`input[1]` must be a string"),
        ({"encoding_format": "int8"}, "encoding_format", "`encoding_format` must be float or base64"),
        ({"encoding_format": ["float"]}, "encoding_format", "`encoding_format` must be float or base64"),
        ({"dimensions": 3}, "dimensions", "`dimensions` must be 4"),
        ({"dimensions": 4.0}, "dimensions", "`dimensions` must be 4"),
        ({"dimensions": True}, "dimensions", "`dimensions` must be 4"),
        ({"truncate": "yes"}, "truncate", "`truncate` must be true or false"),
        ({"model": None}, "model", "`model` must be a string"),
    ],
)
def test_a_broken_rule_names_its_field(changes, param, message):
    with pytest.raises(InvalidRequest) as caught:
        request_from({**BODY, **changes}, rules=RULES)
    assert str(caught.value).startswith(message)
    assert (caught.value.param, caught.value.code) == (param, "invalid_request")


@pytest.mark.parametrize("body", [None, [], "text", 1])
def test_a_body_that_is_no_object_is_refused(body):
    with pytest.raises(InvalidRequest, match="must be a JSON object"):
        request_from(body, rules=RULES)


def test_another_model_is_refused_by_name_and_told_which_there_is():
    with pytest.raises(UnknownModel, match="'gpt' is not served here; this server has m") as caught:
        request_from({**BODY, "model": "gpt"}, rules=RULES)
    assert (caught.value.param, caught.value.code) == ("model", "model_not_found")


def test_too_long_an_input_is_named_with_its_tokens_and_the_limit():
    assert too_long([8, 9, 7, 10], limit=8) == [1, 3]
    with pytest.raises(InputTooLong, match=r"`input\[1\]` has 9 tokens and the model takes 8") as caught:
        refuse_too_long([8, 9, 7, 10], limit=8)
    assert (caught.value.param, caught.value.code) == ("input", "input_too_long")
    refuse_too_long([8, 1], limit=8)
    with pytest.raises(InputTooLong, match=r"`input\[21\]` has 9 tokens"):
        refuse_too_long([8, 9], limit=8, first=20)


def test_a_text_of_very_many_characters_is_refused_unread_or_cut_on_request():
    most = 256 * IDENTITY.max_tokens
    texts = ["a" * most, "b" * (most + 1), "c"]
    with pytest.raises(InputTooLong, match=rf"`input\[1\]` has {most + 1} characters and the model takes {most};"):
        request_from({**BODY, "input": texts}, rules=RULES)
    request = request_from({**BODY, "input": texts, "truncate": True}, rules=RULES)
    assert request.texts == ("a" * most, "b" * most, "c")
    assert request.cut == (1,)


@given(st.lists(st.integers(1, 20_000), min_size=1, max_size=30))
def test_portions_hold_every_text_once_in_order_and_few_characters_or_one_text(lengths):
    texts = ["x" * length for length in lengths]
    parts = [texts[portion] for portion in portions(texts)]
    assert [text for part in parts for text in part] == texts
    assert all(part and (len(part) == 1 or sum(map(len, part)) <= 16_384) for part in parts)
