"""Rows, tokenizers made for one purpose each, and an engine that remembers what it was asked."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from steelyard.decide.acceptance.predictions import Prediction
from steelyard.decide.domain.errors import OutOfMemory
from steelyard.decide.domain.ports import SuffixLogits, Traits
from steelyard.decide.domain.rows import Option, Row

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from steelyard.decide.domain.ports import Message, Scorers, Suffix, Tokenizer

_FIRST_PIECE = 0x110000


def fields(**changes: Any) -> dict[str, Any]:
    """Give a valid row as JSON, with *changes*."""
    row = {
        "id": "r1",
        "state": "The lift is out of order.",
        "question": "Can the lift be used?",
        "options": [{"id": "yes", "description": "It can"}, {"id": "no", "description": "It cannot"}],
    }
    return row | changes


def options(*descriptions: str) -> tuple[Option, ...]:
    return tuple(Option(id=f"o{i}", description=text) for i, text in enumerate(descriptions))


def row(**changes: Any) -> Row:
    defaults: dict[str, Any] = {
        "id": "r1",
        "state": "The lift is out of order.",
        "question": "Can the lift be used?",
        "options": options("It can", "It cannot"),
    }
    return Row(**(defaults | changes))


class PieceTokenizer:
    """A token for each of *pieces*, the longest first, and for every other character its code point."""

    def __init__(self, *pieces: str, can_pad: bool = True) -> None:
        self.can_pad = can_pad
        self.encoded = 0
        self._pieces = sorted(pieces, key=len, reverse=True)
        self._pattern = re.compile("|".join([*map(re.escape, self._pieces), "."]), re.DOTALL)

    def render(self, messages: Sequence[Message]) -> str:
        return "".join(f"<{message.role}>{message.content}" for message in messages) + "<answer>"

    def encode(self, text: str) -> list[int]:
        self.encoded += 1
        return [self._token(piece) for piece in self._pattern.findall(text)]

    def decode(self, tokens: Sequence[int]) -> str:
        return "".join(self._pieces[t - _FIRST_PIECE] if t >= _FIRST_PIECE else chr(t) for t in tokens)

    def _token(self, piece: str) -> int:
        return _FIRST_PIECE + self._pieces.index(piece) if piece in self._pieces else ord(piece)


@dataclass
class ScriptedPrefix:
    """A handle on the prefix *tokens* of its engine."""

    engine: ScriptedEngine
    tokens: list[int]
    is_open: bool = True

    def score(self, suffixes: Sequence[Suffix]) -> SuffixLogits:
        assert self.is_open, "a closed prefix was asked for scores"
        self.engine.batches.append(len(suffixes))
        if not self.engine.fits(self.engine.batches):
            raise OutOfMemory(f"{len(suffixes)} rows are too many")
        longest = max(len(suffix.tokens) for suffix in suffixes)
        return SuffixLogits(
            logits=[self.engine.logits_of([*self.tokens, *s.tokens], s.slots) for s in suffixes],
            replicate_seconds=0.25,
            forward_seconds=0.5,
            padded_tokens=longest * len(suffixes),
        )

    def close(self) -> None:
        self.is_open = False

    def __enter__(self) -> ScriptedPrefix:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()


def _sum_of_both(tokens: Sequence[int], slots: Sequence[int]) -> list[float]:
    return [(sum(tokens) * (slot + 1)) % 97 / 8 for slot in slots]


@dataclass
class ScriptedEngine:
    """An engine whose logits are a function of the whole prompt's tokens, and that remembers each call."""

    tokenizer: Tokenizer = field(default_factory=PieceTokenizer)
    logits_of: Callable[[Sequence[int], Sequence[int]], list[float]] = _sum_of_both
    fits: Callable[[Sequence[int]], bool] = lambda _batches: True  # Hears every batch's size, the present one last.
    traits: Traits = field(
        default_factory=lambda: Traits(name="scripted", is_model=False, rows_per_batch=8, tolerance=0.0)
    )
    model: Mapping[str, object] = field(default_factory=lambda: {"source": "scripted", "revision": None})
    serving_config: Mapping[str, object] = field(default_factory=lambda: {"engine": "scripted"})
    evaluated_tokens: int = 0
    scorers: Scorers | None = None
    peak_gpu_bytes: int | None = None
    settled: int = 0
    batches: list[int] = field(default_factory=list)
    prefixes: list[ScriptedPrefix] = field(default_factory=list)
    tidied: list[bool] = field(default_factory=list)
    is_closed: bool = False

    def forward(self, tokens: Sequence[int], slots: Sequence[int]) -> list[float]:
        self.evaluated_tokens += len(tokens)
        return self.logits_of(tokens, slots)

    def prefill(self, tokens: Sequence[int]) -> ScriptedPrefix:
        self.evaluated_tokens += len(tokens)
        self.prefixes.append(ScriptedPrefix(self, list(tokens)))
        return self.prefixes[-1]

    def settle(self) -> None:
        self.settled += 1

    def tidy(self, *, failed: bool) -> None:
        self.tidied.append(failed)

    def close(self) -> None:
        self.is_closed = True


def prediction(*probabilities: float, id: str = "r1", **changes: Any) -> Prediction:  # noqa: A002
    """Give a prediction whose logits are the probabilities' tenfold, so that leads are easy to see."""
    defaults: dict[str, Any] = {
        "option_ids": tuple(f"o{i}" for i in range(len(probabilities))),
        "probabilities": probabilities,
        "logits": tuple(10 * p for p in probabilities),
        "prompt_sha256": f"hash of {id}",
    }
    return Prediction(id=id, **(defaults | changes))


def by_id(*predictions: Prediction) -> dict[str, Prediction]:
    return {one.id: one for one in predictions}
