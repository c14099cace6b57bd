"""A deterministic engine that is no model: for callers' integration tests, and for ours.

Its logits are a hash of the tokens before them, so equal prompts give equal answers on every machine, shared equals
direct to the last bit, and nothing it says means anything. Three markers in a row's text make it fail as a model can:

    [fake:out_of_memory]   the call runs out of memory
    [fake:failure]         the call fails
    [fake:nan]             every logit is NaN
"""

from __future__ import annotations

import hashlib
import re
import struct
import threading
import time
import zlib
from contextlib import contextmanager
from typing import TYPE_CHECKING

from steelyard.decide.domain.errors import OutOfMemory
from steelyard.decide.domain.ports import SuffixLogits, Traits

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from types import TracebackType

    from steelyard.decide.domain.ports import Message, Suffix

_MARKERS = ("[fake:out_of_memory]", "[fake:failure]", "[fake:nan]")
_PIECES = re.compile(r"<\|\w+\|>|" + "|".join(map(re.escape, _MARKERS)) + r"| ?\w+|\s+|[^\w\s]")
_FIRST_HASHED = 0x110000  # Below are the code points: a piece of one character is its own token.


def _hashed(piece: str) -> int:
    """Return the token of a piece of several characters, which 32 bits hold."""
    return _FIRST_HASHED + zlib.crc32(piece.encode("utf-8")) % (2**32 - _FIRST_HASHED)


_OUT_OF_MEMORY, _FAILURE, _NAN = map(_hashed, _MARKERS)


class FakeTokenizer:
    """Words, spaces and signs as tokens, in the chat template that Qwen3.5 renders."""

    can_pad = True

    def render(self, messages: Sequence[Message]) -> str:
        """Return *messages* as Qwen3.5's template shows them with thinking switched off."""
        turns = "".join(f"<|im_start|>{message.role}\n{message.content}<|im_end|>\n" for message in messages)
        return f"{turns}<|im_start|>assistant\n<think>\n\n</think>\n\n"

    def encode(self, text: str) -> list[int]:
        """Return a token per piece: its code point, or a hash where it is longer than one character."""
        return [ord(piece) if len(piece) == 1 else _hashed(piece) for piece in _PIECES.findall(text)]

    def decode(self, tokens: Sequence[int]) -> str:
        """Return the text of *tokens*; a hash cannot be undone and reads as U+FFFD."""
        return "".join(chr(token) if token < _FIRST_HASHED else "\ufffd" for token in tokens)


class FakeEngine:
    """The fake engine; each call takes *seconds_per_call*, so that a test can meet a busy server."""

    scorers = None
    peak_gpu_bytes = None

    def __init__(self, *, seconds_per_call: float = 0.0) -> None:
        self.tokenizer = FakeTokenizer()
        self.traits = Traits(name="fake", is_model=False, rows_per_batch=64, tolerance=0.0)
        self.model: Mapping[str, object] = {
            "source": "fake",
            "revision": None,
            "dtype": "none",
            "device": "cpu",
            "note": "deterministic fake engine; this is no model and its answers mean nothing",
        }
        self.serving_config: Mapping[str, object] = {"engine": "fake", "rows_per_batch": 64}
        self.evaluated_tokens = 0
        self._seconds_per_call = seconds_per_call
        self._running = threading.Lock()

    def forward(self, tokens: Sequence[int], slots: Sequence[int]) -> list[float]:
        """Return the hashed logits of *slots* after *tokens*."""
        with self._one_call():
            return self._logits(tokens, slots)

    def prefill(self, tokens: Sequence[int]) -> FakePrefix:
        """Return a handle on *tokens*."""
        with self._one_call():
            self._count(tokens)
        return FakePrefix(self, list(tokens))

    def score_suffixes(self, prefix: list[int], suffixes: Sequence[Suffix]) -> SuffixLogits:
        """Return each suffix's logits after *prefix*, whose tokens were counted when it was prefilled."""
        with self._one_call():
            logits = [self._logits([*prefix, *suffix.tokens], suffix.slots, known=len(prefix)) for suffix in suffixes]
        tokens = sum(len(suffix.tokens) for suffix in suffixes)
        return SuffixLogits(logits=logits, replicate_seconds=0.0, forward_seconds=0.0, padded_tokens=tokens)

    def settle(self) -> None:
        """Do nothing: there is no memory to measure."""

    def tidy(self, *, failed: bool) -> None:
        """Do nothing: there is no memory to give back."""

    def close(self) -> None:
        """Do nothing: there is no model to unload."""

    @contextmanager
    def _one_call(self) -> Iterator[None]:
        """Take this call's seconds; two calls at once are the fault that the one scoring thread must rule out."""
        if not self._running.acquire(blocking=False):
            raise RuntimeError("two calls overlapped in the engine")
        try:
            time.sleep(self._seconds_per_call)
            yield
        finally:
            self._running.release()

    def _count(self, tokens: Sequence[int]) -> None:
        if _OUT_OF_MEMORY in tokens:
            raise OutOfMemory("the fake engine was asked to run out of memory")
        if _FAILURE in tokens:
            raise RuntimeError("the fake engine was asked to fail")
        self.evaluated_tokens += len(tokens)

    def _logits(self, tokens: Sequence[int], slots: Sequence[int], *, known: int = 0) -> list[float]:
        self._count(tokens[known:])
        if _NAN in tokens:
            return [float("nan")] * len(slots)
        seed = hashlib.sha256(struct.pack(f"<{len(tokens)}I", *tokens))
        return [_logit(seed, slot) for slot in slots]


class FakePrefix:
    """A handle on tokens that the fake engine was given."""

    def __init__(self, engine: FakeEngine, tokens: list[int]) -> None:
        self._engine = engine
        self._tokens = tokens

    def score(self, suffixes: Sequence[Suffix]) -> SuffixLogits:
        """Return each suffix's logits."""
        return self._engine.score_suffixes(self._tokens, suffixes)

    def close(self) -> None:
        """Do nothing: there is nothing to free."""

    def __enter__(self) -> FakePrefix:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _logit(seed: hashlib._Hash, slot: int) -> float:
    """Return a number in [-8, 8) in steps of 2^-12, which FP32 holds exactly."""
    digest = seed.copy()
    digest.update(struct.pack("<I", slot))
    return (int.from_bytes(digest.digest()[:2], "big") - 0x8000) / 0x1000
