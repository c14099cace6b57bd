from __future__ import annotations

import base64
import json
import struct
import sys
from array import array

import pytest
from hypothesis import given
from hypothesis import strategies as st

from steelyard.hub.gateway.domain.answers import as_base64, most_bytes, read_answer
from steelyard.hub.gateway.domain.errors import BadAnswer, NotFinite, WrongDimension

VECTOR = [1.0, -0.5, 0.25, 3.0]


def packed(*numbers: float) -> str:
    return base64.b64encode(struct.pack(f"<{len(numbers)}f", *numbers)).decode()


def answer(*embeddings: object, **changes: object) -> bytes:
    data = [{"object": "embedding", "index": index, "embedding": value} for index, value in enumerate(embeddings)]
    return json.dumps({"data": data, "usage": {"prompt_tokens": 7}, **changes}).encode()


@pytest.mark.parametrize("embedding", [VECTOR, packed(*VECTOR), [1, -0.5, 0.25, 3]])
def test_numbers_and_base64_are_read_alike(embedding):
    read = read_answer(answer(embedding), count=1, dimension=4)
    assert [list(vector) for vector in read.vectors] == [VECTOR]
    assert (read.tokens, read.truncated) == (7, None)


def test_vectors_come_back_in_the_inputs_order():
    data = [{"index": index, "embedding": [float(index)]} for index in (2, 0, 1)]
    read = read_answer(answer(data=data), count=3, dimension=1)
    assert [vector[0] for vector in read.vectors] == [0, 1, 2]


@given(st.lists(st.floats(width=32, allow_nan=False, allow_infinity=False), min_size=1, max_size=8))
def test_base64_goes_and_comes_without_a_change(numbers):
    read = read_answer(answer(packed(*numbers)), count=1, dimension=len(numbers))
    assert as_base64(read.vectors[0]) == packed(*numbers)


@pytest.mark.parametrize("order", ["little", "big"])
def test_base64_is_little_endian_whatever_the_machine(monkeypatch, order):
    monkeypatch.setattr(sys, "byteorder", order)
    vector = array("f", [1.0, 2.0])
    assert read_answer(answer(as_base64(vector)), count=1, dimension=2).vectors == [vector]
    assert (as_base64(vector) == packed(1.0, 2.0)) == (order == "little")


@pytest.mark.parametrize(
    "body",
    [
        b"", b"<html>", b"[]", b"1", b"{}", b'{"data": {}}', b"[" * 100_000, b"\xff",
        answer(data=[1]),
        answer(data=[{"embedding": VECTOR}]),
        answer(data=[{"index": True, "embedding": VECTOR}]),
        answer(data=[{"index": 1, "embedding": VECTOR}]),
        answer(data=[{"index": 0}]),
        answer(),
        answer(VECTOR, VECTOR),
        answer("####"),
        answer("AAA"),
        answer("AAAAAAA="),
        answer("é"),
        answer({"0": 1.0}),
        answer([1.0, "2", 3.0, 4.0]),
        answer([1.0, True, 3.0, 4.0]),
        answer([VECTOR]),
        answer(VECTOR, usage={"truncated": "0"}),
        answer(VECTOR, usage={"truncated": [1]}),
        answer(VECTOR, usage={"truncated": [True]}),
    ],
)  # fmt: skip
def test_what_is_no_list_of_embeddings_is_a_bad_answer(body):
    with pytest.raises(BadAnswer) as refused:
        read_answer(body, count=1, dimension=4)
    assert type(refused.value) is BadAnswer


def test_an_index_that_comes_twice_is_a_bad_answer():
    with pytest.raises(BadAnswer, match="each index once"):
        read_answer(answer(data=[{"index": 0, "embedding": VECTOR}] * 2), count=2, dimension=4)


@pytest.mark.parametrize("embedding", [VECTOR[:3], [*VECTOR, 1.0], [], packed(1.0), ""])
def test_another_dimension_is_named(embedding):
    with pytest.raises(WrongDimension, match="and the deployment's have 4"):
        read_answer(answer(embedding), count=1, dimension=4)


@pytest.mark.parametrize("number", [float("nan"), float("inf"), -float("inf"), 1e300, 10**400, None])
def test_a_number_that_float32_cannot_hold_is_not_finite(number):
    with pytest.raises(NotFinite):
        read_answer(answer([1.0, number, 2.0, 3.0]), count=1, dimension=4)


@pytest.mark.parametrize("numbers", [(float("nan"),) * 4, (float("inf"), -float("inf"), 0.0, 0.0)])
def test_base64_that_is_not_finite_is_refused(numbers):
    with pytest.raises(NotFinite):
        read_answer(answer(packed(*numbers)), count=1, dimension=4)


def test_the_largest_float32_is_finite():
    largest = 3.4028234663852886e38
    assert read_answer(answer([largest] * 4096), count=1, dimension=4096).vectors[0][0] == largest


@pytest.mark.parametrize("usage", [None, [], {}, {"prompt_tokens": -1}, {"prompt_tokens": True},
                                   {"prompt_tokens": 1.5}, {"prompt_tokens": 2**31}])  # fmt: skip
def test_a_server_that_counts_no_tokens_has_counted_none(usage):
    assert read_answer(answer(VECTOR, usage=usage), count=1, dimension=4).tokens is None


def test_the_positions_of_cut_inputs_are_read():
    usage = {"prompt_tokens": 9, "truncated": [1]}
    assert read_answer(answer(VECTOR, VECTOR, usage=usage), count=2, dimension=4).truncated == (1,)


@pytest.mark.parametrize(("count", "dimension"), [(1, 1), (2048, 384), (3, 4096)])
def test_no_honest_answer_is_larger_than_the_bound(count, dimension):
    longest = [-1.2345678901234567e-300] * dimension
    assert len(answer(*[longest] * min(count, 3))) <= most_bytes(count=min(count, 3), dimension=dimension)
