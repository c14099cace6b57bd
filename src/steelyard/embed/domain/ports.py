"""The runtime port: what the server asks of an embedding model, and nothing more.

A runtime turns rows of tokens into vectors. It knows no requests and no limits. One call runs at a time; the caller
sees to that. Failures are any exception; `errors.is_out_of_memory` knows what they mean.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, TypeAlias

if TYPE_CHECKING:
    from array import array
    from collections.abc import Mapping, Sequence

    from steelyard.embed.domain.identity import Identity

# Of type code "i", and "f": FP32, as models give it. Quoted, for array cannot be subscripted before Python 3.12.
Tokens: TypeAlias = "array[int]"
Vector: TypeAlias = "array[float]"


@dataclass(frozen=True)
class Traits:
    """What a runtime is, and how far a row's vector may move with its neighbours.

    *tolerance* bounds each component's difference between a row embedded alone and in any batch.
    """

    name: str
    is_model: bool
    tolerance: float


class Tokenizer(Protocol):
    """The model's own tokenizer. It may be used from one thread while the model runs on another."""

    def encode(self, texts: Sequence[str]) -> list[Tokens]:
        """Return all tokens of each text, special tokens added, however many there are."""
        ...

    def cut(self, text: str) -> Tokens:
        """Return the model's longest admissible beginning of *text*, special tokens included."""
        ...


class Runtime(Protocol):
    """One loaded embedding model."""

    @property
    def identity(self) -> Identity:
        """The embedding space of its vectors."""
        ...

    @property
    def traits(self) -> Traits:
        """What this runtime is."""
        ...

    @property
    def facts(self) -> Mapping[str, object]:
        """What was loaded, as /health reports it: files with their SHA-256, versions, threads."""
        ...

    @property
    def tokenizer(self) -> Tokenizer:
        """The model's tokenizer."""
        ...

    def embed(self, rows: Sequence[Tokens]) -> list[Vector]:
        """Return the vector of each row (at least one, none empty), in order, from one pass over all of them."""
        ...

    def close(self) -> None:
        """Unload the model; nothing may be called afterwards."""
        ...
