"""The answer to `POST /v1/embeddings`, as JSON text.

It is put together input by input: the JSON of two thousand vectors in one call would hold every other thread up.
"""

from __future__ import annotations

import base64
import json
import math
import sys
from array import array
from dataclasses import dataclass
from typing import TYPE_CHECKING

from steelyard.embed.domain.errors import EmbeddingFailed

if TYPE_CHECKING:
    from collections.abc import Sequence

    from steelyard.embed.domain.ports import Vector


@dataclass(frozen=True)
class Usage:
    """What a request cost: tokens that went through the model, special ones included, and the inputs that were cut."""

    tokens: int
    truncated: tuple[int, ...]


def answer_text(vectors: Sequence[Vector], *, model: str, usage: Usage, is_base64: bool) -> str:
    """Return the answer with one vector per input, in order.

    `usage.truncated` lists the places of the inputs that were cut; OpenAI's answer has no such field.
    """
    encode = _base64 if is_base64 else _floats
    items = ",".join(
        f'{{"object":"embedding","index":{index},"embedding":{encode(vector)}}}' for index, vector in enumerate(vectors)
    )
    cost = {"prompt_tokens": usage.tokens, "total_tokens": usage.tokens, "truncated": list(usage.truncated)}
    return f'{{"object":"list","data":[{items}],"model":{json.dumps(model)},"usage":{json.dumps(cost)}}}'


def _floats(vector: Vector) -> str:
    return json.dumps(vector.tolist(), separators=(",", ":"), allow_nan=False)


def _base64(vector: Vector) -> str:
    """Return the vector's FP32 bytes, little-endian, as OpenAI's clients read them."""
    if sys.byteorder == "big":
        vector = array("f", vector)
        vector.byteswap()
    return f'"{base64.b64encode(vector.tobytes()).decode("ascii")}"'


def check_finite(vector: Vector) -> None:
    """Raise EmbeddingFailed where a component is NaN or infinite: such a vector is an error, never an answer."""
    # FP32 values are too small for their sum to overflow in double precision, so only such a value makes it so.
    if not math.isfinite(sum(vector)):
        raise EmbeddingFailed("The model gave a vector with a value that is not finite")
