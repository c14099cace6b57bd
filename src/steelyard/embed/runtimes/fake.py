"""A deterministic runtime that is no model: for callers' integration tests, and for ours.

A row's vector is made of a hash of its tokens, so equal texts have equal vectors on every machine, a row's neighbours
change nothing, and nothing it says means anything. Three markers in a text make it fail as a model can:

    [fake:out_of_memory]   the call runs out of memory
    [fake:failure]         the call fails
    [fake:nan]             the vector's first component is NaN
"""

from __future__ import annotations

import hashlib
import math
import re
import struct
import threading
import time
import zlib
from array import array
from typing import TYPE_CHECKING

from steelyard.embed.domain.errors import OutOfMemory
from steelyard.embed.domain.identity import Identity, Pooling
from steelyard.embed.domain.ports import Traits

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from steelyard.embed.domain.ports import Tokens, Vector

_MARKERS = ("[fake:out_of_memory]", "[fake:failure]", "[fake:nan]")
_PIECES = re.compile("|".join(map(re.escape, _MARKERS)) + r"|\w+|[^\w\s]")
_DIMENSION = 32
_FIRST, _LAST = 1, 2  # As a BERT brackets a text.


def _token(piece: str) -> int:
    """Return the token of a piece, which 31 bits hold."""
    return zlib.crc32(piece.encode("utf-8", "replace")) & 0x7FFF_FFFF


_OUT_OF_MEMORY, _FAILURE, _NAN = map(_token, _MARKERS)


class FakeTokenizer:
    """Words and signs as tokens, between two special ones."""

    def __init__(self, max_tokens: int) -> None:
        self._max_tokens = max_tokens

    def encode(self, texts: Sequence[str]) -> list[Tokens]:
        """Return a token per word or sign of each text."""
        return [array("i", [_FIRST, *map(_token, _PIECES.findall(text)), _LAST]) for text in texts]

    def cut(self, text: str) -> Tokens:
        """Return the longest admissible beginning of *text*."""
        (tokens,) = self.encode([text])
        if len(tokens) <= self._max_tokens:
            return tokens
        return array("i", [*tokens[: self._max_tokens - 1], _LAST])


class FakeRuntime:
    """The fake runtime; each call takes *seconds_per_call*, so that a test can meet a busy server."""

    def __init__(self, *, seconds_per_call: float = 0.0, max_tokens: int = 256) -> None:
        self.identity = Identity(
            model="fake",
            dimension=_DIMENSION,
            pooling=Pooling.NONE,
            is_normalised=True,
            max_tokens=max_tokens,
            dtype="none",
            output="none",
        )
        self.traits = Traits(name="fake", is_model=False, tolerance=0.0)
        self.facts: Mapping[str, object] = {
            "note": "deterministic fake runtime; this is no model and its vectors mean nothing"
        }
        self.tokenizer = FakeTokenizer(max_tokens)
        self._seconds_per_call = seconds_per_call
        self._running = threading.Lock()

    def embed(self, rows: Sequence[Tokens]) -> list[Vector]:
        """Return the hashed vector of each row."""
        if not self._running.acquire(blocking=False):
            raise RuntimeError("two calls overlapped in the runtime")  # What the one thread must rule out.
        try:
            time.sleep(self._seconds_per_call)
            return [_vector(row) for row in rows]
        finally:
            self._running.release()

    def close(self) -> None:
        """Do nothing: there is no model to unload."""


def _vector(row: Tokens) -> Vector:
    if _OUT_OF_MEMORY in row:
        raise OutOfMemory("the fake runtime was asked to run out of memory")
    if _FAILURE in row:
        raise RuntimeError("the fake runtime was asked to fail")
    seed = hashlib.shake_256(struct.pack(f"<{len(row)}i", *row)).digest(2 * _DIMENSION)
    raw = [value - 0x8000 + 0.5 for value in struct.unpack(f"<{_DIMENSION}H", seed)]
    norm = math.hypot(*raw)
    vector = array("f", [value / norm for value in raw])
    if _NAN in row:
        vector[0] = math.nan
    return vector
