"""The engine port: what the scorers ask of a language model, and nothing more.

An engine turns tokens into the logits of chosen tokens. It knows no rows, questions, options or limits. One call runs
at a time; the caller sees to that. Failures are `OutOfMemory` where memory ran out and any other exception otherwise.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from types import TracebackType

    from steelyard.decide.domain.results import Result, Timing
    from steelyard.decide.domain.rows import Row

DIRECT_READOUT = "native full-vocabulary last-position logits restricted to declared answer slots"
SHARED_READOUT = "native selected suffix-position logits"


@dataclass(frozen=True)
class Message:
    """One chat message; *role* is `system` or `user`."""

    role: str
    content: str


class Tokenizer(Protocol):
    """The loaded model's own tokenizer and chat template."""

    @property
    def can_pad(self) -> bool:
        """Tell whether the vocabulary has a padding or an end-of-sequence token."""
        ...

    def render(self, messages: Sequence[Message]) -> str:
        """Return *messages* in the model's chat template, generation prompt added, thinking switched off."""
        ...

    def encode(self, text: str) -> list[int]:
        """Return the tokens of *text*, none added; special tokens in the text are recognised."""
        ...

    def decode(self, tokens: Sequence[int]) -> str:
        """Return the text of *tokens*."""
        ...


@dataclass(frozen=True)
class Traits:
    """What an engine can do and how far its answers may move."""

    name: str
    is_model: bool
    rows_per_batch: int  # The most suffixes that one forward pass takes; 1 means that suffixes run one after another.
    tolerance: float  # The largest gap between a row's direct and shared probabilities, as a probability.
    direct_readout: str = DIRECT_READOUT
    shared_readout: str = SHARED_READOUT


@dataclass(frozen=True)
class Suffix:
    """The tokens of one row after the shared prefix (at least one), and the tokens whose logits are asked for."""

    tokens: Sequence[int]
    slots: Sequence[int]


@dataclass(frozen=True)
class SuffixLogits:
    """What one batch of suffixes gave: FP32 logits, one list per suffix in its slots' order, and what it cost."""

    logits: list[list[float]]
    replicate_seconds: float
    forward_seconds: float
    padded_tokens: int


class Prefix(Protocol):
    """A handle on a prefilled prefix. It can score many batches of suffixes and holds memory until it is closed."""

    def score(self, suffixes: Sequence[Suffix]) -> SuffixLogits:
        """Run *suffixes* together, each on its own branch of the prefix, which stays as it was.

        Raises OutOfMemory where they do not fit together; a smaller batch may.
        """
        ...

    def close(self) -> None:
        """Free the prefix's memory; closing twice is harmless."""
        ...

    def __enter__(self) -> Prefix: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...


class Scorers(Protocol):
    """Scorers of another project, which judge whole rows by their own prompts and checks."""

    def score_direct(self, row: Row, *, max_tokens: int) -> Result:
        """Return the result of *row*, keys as `results.result_of` orders them."""
        ...

    def score_shared(self, rows: Sequence[Row], *, max_tokens: int) -> tuple[list[Result], Timing]:
        """Return the results of *rows*, which share one state, in order, and the call's timing."""
        ...


class Engine(Protocol):
    """One loaded language model."""

    @property
    def scorers(self) -> Scorers | None:
        """The scorers that this engine brings and that then take the place of ours; None where ours are used."""
        ...

    @property
    def traits(self) -> Traits:
        """What this engine can do."""
        ...

    @property
    def tokenizer(self) -> Tokenizer:
        """The model's tokenizer."""
        ...

    @property
    def model(self) -> Mapping[str, object]:
        """What was loaded, as every result reports it: source, revision, dtype, device, library versions."""
        ...

    @property
    def serving_config(self) -> Mapping[str, object]:
        """How shared calls run, as every shared result reports it."""
        ...

    @property
    def evaluated_tokens(self) -> int:
        """How many tokens went through the model since it was loaded."""
        ...

    @property
    def peak_gpu_bytes(self) -> int | None:
        """The most GPU memory in bytes that the engine has held since it was loaded; None where it counts none."""
        ...

    def forward(self, tokens: Sequence[int], slots: Sequence[int]) -> list[float]:
        """Return the raw FP32 logits of *slots* after *tokens*, from one fresh forward pass."""
        ...

    def prefill(self, tokens: Sequence[int]) -> Prefix:
        """Run *tokens* (at least one) once and return a handle that scores suffixes after them."""
        ...

    def settle(self) -> None:
        """Take the memory held now, after the warm-up, as what `tidy` leaves alone."""
        ...

    def tidy(self, *, failed: bool) -> None:
        """Give spare memory back after a call; *failed* tells that the call raised and left nothing of worth."""
        ...

    def close(self) -> None:
        """Unload the model; nothing may be called afterwards."""
        ...
