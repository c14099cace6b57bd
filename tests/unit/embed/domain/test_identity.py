from __future__ import annotations

import pytest

from steelyard.embed.domain.identity import Identity, Pooling, digests_from, identity_from

VALUES = {"dimension": 384, "pooling": "mean", "max_tokens": 256, "output": "last_hidden_state"}


def test_a_description_becomes_an_identity():
    assert identity_from(VALUES, model="m") == Identity(
        "m", 384, Pooling.MEAN, True, 256, "unknown", "last_hidden_state"
    )
    described = identity_from({**VALUES, "pooling": "cls", "normalised": False, "dtype": "int8"}, model="m")
    assert (described.pooling, described.is_normalised, described.dtype) == (Pooling.CLS, False, "int8")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"dimension": None}, "must give `dimension` as an integer from 1"),
        ({"dimension": True}, "must give `dimension`"),
        ({"max_tokens": 0}, "must give `max_tokens`"),
        ({"pooling": "max"}, "must give `pooling` as one of mean, cls, none"),
        ({"pooling": ["mean"]}, "must give `pooling`"),
        ({"output": ""}, "must give `output` as a nonempty string"),
        ({"output": 3}, "must give `output`"),
        ({"normalised": "yes"}, "must give `normalised` as true or false"),
        ({"dimensions": 384}, "has an unknown key 'dimensions'; the keys are dimension, dtype,"),
    ],
)
def test_a_wrong_description_says_what_it_must_do(changes, message):
    with pytest.raises(ValueError, match=f"^{message}"):
        identity_from({**VALUES, **changes}, model="m")


@pytest.mark.parametrize("values", [None, [], "x"])
def test_a_description_is_an_object(values):
    with pytest.raises(ValueError, match="must be a JSON object"):
        identity_from(values, model="m")


def test_digests_may_be_absent_and_are_lowercase():
    assert digests_from(VALUES) == {}
    assert digests_from({"sha256": {"model.onnx": "AB" * 32}}) == {"model.onnx": "ab" * 32}


@pytest.mark.parametrize("pins", [[], {"model.onnx": "ab"}, {"model.onnx": 1}])
def test_wrong_digests_are_refused(pins):
    with pytest.raises(ValueError, match="must give `sha256`"):
        digests_from({"sha256": pins})
