from __future__ import annotations

import base64
import json
import math
import struct
from array import array

import pytest

from steelyard.embed.domain.answers import Usage, answer_text, check_finite
from steelyard.embed.domain.errors import EmbeddingFailed

VECTORS = [array("f", [0.25, -1.5]), array("f", [0.1, 1e-20])]
USAGE = Usage(tokens=7, truncated=(1,))


def answered(*, is_base64: bool) -> dict:
    content: dict = json.loads(answer_text(VECTORS, model="m", usage=USAGE, is_base64=is_base64))
    return content


def test_an_answer_has_openais_shape_and_says_which_inputs_were_cut():
    content = answered(is_base64=False)
    assert list(content) == ["object", "data", "model", "usage"]
    assert [(item["object"], item["index"]) for item in content["data"]] == [("embedding", 0), ("embedding", 1)]
    assert content["usage"] == {"prompt_tokens": 7, "total_tokens": 7, "truncated": [1]}
    assert content["model"] == "m"


def test_floats_are_those_of_fp32_to_the_last_bit():
    assert [item["embedding"] for item in answered(is_base64=False)["data"]] == [list(vector) for vector in VECTORS]


@pytest.mark.parametrize("byteorder", ["little", "big"])
def test_base64_is_fp32_little_endian(monkeypatch, byteorder):
    vectors = [array("f", vector) for vector in VECTORS]
    if byteorder == "big":  # As the same numbers lie in the memory of such a machine.
        monkeypatch.setattr("sys.byteorder", "big")
        for vector in vectors:
            vector.byteswap()
    content = json.loads(answer_text(vectors, model="m", usage=USAGE, is_base64=True))
    for item, vector in zip(content["data"], VECTORS, strict=True):
        assert list(struct.unpack("<2f", base64.b64decode(item["embedding"]))) == list(vector)


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_a_value_that_is_not_finite_is_an_error(value):
    with pytest.raises(EmbeddingFailed, match="not finite"):
        check_finite(array("f", [0.0, value, 1.0]))


def test_the_largest_values_are_finite():
    check_finite(array("f", [3.4028234e38] * 4096))
