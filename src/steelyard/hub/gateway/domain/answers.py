"""What an embedding server answers, read with suspicion: one finite vector of the right dimension for each input.

The hub asks for base64 and takes lists of numbers too, for not every server knows the former.
"""

from __future__ import annotations

import base64
import binascii
import json
import math
import sys
from array import array
from dataclasses import dataclass
from typing import TypeAlias

from steelyard.hub.gateway.domain.errors import BadAnswer, NotFinite, WrongDimension

_MOST_TOKENS = 2**31 - 1
_NUMBERS = {int, float}
# A number takes at most 24 characters and a comma; base64 takes less. The rest of an item and of the answer is small.
_NUMBER_BYTES, _ITEM_BYTES, _FRAME_BYTES = 26, 512, 65_536

Vector: TypeAlias = "array[float]"  # Of float32, in the machine's byte order.


@dataclass(frozen=True)
class Answer:
    """One vector for each input, in the inputs' order.

    *tokens* is None where the server counted none, and *truncated* (positions of cut inputs) where it did not tell.
    """

    vectors: list[Vector]
    tokens: int | None
    truncated: tuple[int, ...] | None


def most_bytes(*, count: int, dimension: int) -> int:
    """Return the size that no honest answer with *count* vectors exceeds."""
    return count * (dimension * _NUMBER_BYTES + _ITEM_BYTES) + _FRAME_BYTES


def read_answer(body: bytes, *, count: int, dimension: int) -> Answer:
    """Return what *body* says; raises BadAnswer, WrongDimension or NotFinite."""
    answer = _object(_parse(body))
    usage = answer.get("usage")
    usage = usage if isinstance(usage, dict) else {}
    return Answer(
        vectors=_vectors(answer.get("data"), count=count, dimension=dimension),
        tokens=_tokens(usage.get("prompt_tokens")),
        truncated=_positions(usage.get("truncated"), count=count),
    )


def as_base64(vector: Vector) -> str:
    """Return *vector* as the base64 of its little-endian float32."""
    return base64.b64encode(_swapped(vector).tobytes()).decode("ascii")


def _parse(body: bytes) -> object:
    try:
        value: object = json.loads(body)  # NaN and infinity are read here, and refused by their own name below.
    except (ValueError, RecursionError):
        raise BadAnswer("The embedding server's answer is not JSON") from None
    return value


def _object(value: object) -> dict[str, object]:
    if not isinstance(value, dict):
        raise BadAnswer
    return value


def _vectors(data: object, *, count: int, dimension: int) -> list[Vector]:
    if not isinstance(data, list):
        raise BadAnswer
    if len(data) != count:
        raise BadAnswer(f"The embedding server answered {len(data)} vectors for {count} inputs")
    items = {_index(item): item["embedding"] for item in map(_object, data) if "embedding" in item}
    if sorted(items) != list(range(count)):
        raise BadAnswer("The embedding server's answer does not have each index once, with an embedding")
    return [_vector(items[index], dimension=dimension) for index in range(count)]


def _index(item: dict[str, object]) -> int:
    index = item.get("index")
    if not isinstance(index, int) or isinstance(index, bool):
        raise BadAnswer("The embedding server's answer has an item without its index")
    return index


def _vector(embedding: object, *, dimension: int) -> Vector:
    vector = _decoded(embedding) if isinstance(embedding, str) else _listed(embedding)
    if len(vector) != dimension:
        raise WrongDimension(
            f"The embedding server's vectors have {len(vector)} dimensions, and the deployment's have {dimension}"
        )
    # The sum of so many float32 stays within a double, so it is finite just where every one of them is.
    if not math.isfinite(sum(vector)):
        raise NotFinite
    return vector


def _decoded(text: str) -> Vector:
    vector = array("f")
    try:
        vector.frombytes(base64.b64decode(text, validate=True))
    except (binascii.Error, ValueError):
        raise BadAnswer("The embedding server's answer has a vector that is no base64 of float32") from None
    return _swapped(vector)


def _listed(values: object) -> Vector:
    if not isinstance(values, list):
        raise BadAnswer("The embedding server's answer has an embedding that is no list of numbers")
    kinds = set(map(type, values))
    if type(None) in kinds:  # What llama.cpp writes for NaN.
        raise NotFinite
    if not kinds <= _NUMBERS:
        raise BadAnswer("The embedding server's answer has an embedding that is no list of numbers")
    try:
        return array("f", values)
    except OverflowError:  # An integer beyond every float.
        raise NotFinite from None


def _swapped(vector: Vector) -> Vector:
    """Return *vector* in little-endian order where it was in the machine's, and the other way round."""
    if sys.byteorder == "big":
        vector = vector[:]
        vector.byteswap()
    return vector


def _tokens(value: object) -> int | None:
    is_count = isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= _MOST_TOKENS
    return value if is_count else None  # type: ignore[return-value]  # The line above says that it is an int.


def _positions(value: object, *, count: int) -> tuple[int, ...] | None:
    if value is None:
        return None
    if not isinstance(value, list) or any(type(item) is not int or not 0 <= item < count for item in value):
        raise BadAnswer("The embedding server's answer has a usage.truncated that is no list of positions")
    return tuple(value)
