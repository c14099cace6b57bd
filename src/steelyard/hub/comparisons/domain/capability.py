"""What a capability brings to a comparison, and what a consumer reports of one case.

The protocol knows nothing else of embeddings: another capability, such as one for decisions, is another value of this
port, with cases, answers and metrics of its own.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, Protocol, get_args

if TYPE_CHECKING:
    from collections.abc import Mapping
    from uuid import UUID

    from steelyard.hub.comparisons.domain.participants import Side
    from steelyard.hub.suites.domain import Case

Leg = Literal["current", "candidate"]
LEGS: tuple[Leg, ...] = get_args(Leg)


@dataclass(frozen=True, kw_only=True)
class Metric:
    """A number from 0 to 1 that each case of a leg has; a leg's is the mean over all cases of the suite."""

    name: str
    title: str  # `{k}` stands for the settings' top_k.
    higher_is_better: bool = True


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What a consumer reported of one case on one leg; one with an *error_code* has no answer."""

    case_id: UUID
    answer: Any  # Plain JSON in the capability's form.
    latency_ms: float
    error_code: str | None


class Capability(Protocol):
    """One capability's cases, answers and metrics. *settings* are the suite revision's retrieval settings."""

    @property
    def name(self) -> str:
        """Return the capability's name with its version."""
        ...

    @property
    def metrics_version(self) -> str:
        """Return the version of the metrics' definitions; it changes with any of them."""
        ...

    @property
    def metrics(self) -> tuple[Metric, ...]:
        """Return the metrics, first the one on which eligibility rests."""
        ...

    def profile_of(self, side: Side) -> dict[str, Any]:
        """Return what is pinned of a side beside its deployment, without floats, as plain JSON."""
        ...

    def case_of(self, case: Case) -> dict[str, Any]:
        """Return what the consumer is given of *case*: its id and its input, never its labels."""
        ...

    def input_sha256(self, case: Case) -> str:
        """Return the digest that the request log has of the case's input, sent alone."""
        ...

    def measure(self, case: Case, answer: Any, *, settings: Mapping[str, Any]) -> tuple[float, ...]:
        """Return the value of each metric, in the order of `metrics`, for an answer without an error."""
        ...

    def is_passed(self, case: Case, answer: Any, *, settings: Mapping[str, Any]) -> bool:
        """Tell whether an answer without an error is good enough for a critical case."""
        ...

    def unjudged(self, case: Case, answer: Any, *, settings: Mapping[str, Any]) -> list[str]:
        """Return what of the answer counted although no reviewer has judged it, such as ids of chunks."""
        ...
