"""Cases, legs, and a capability that has nothing to do with retrieval."""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, ClassVar

from steelyard.hub.comparisons.domain.capability import Metric, Outcome
from steelyard.hub.comparisons.domain.measured import ReportedLeg
from steelyard.hub.suites.domain import Case, Review

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from steelyard.hub.comparisons.domain.participants import Side

SEED = "5eed" * 16
REVIEW = Review(reviewer="Ada", reviewed_at=datetime(2026, 11, 2, 9, 30, tzinfo=UTC))


def case(number: int, *, critical: bool = False, **labels: int) -> Case:
    return Case(
        case_id=uuid.UUID(int=number),
        query=f"question {number}",
        labels=labels or {"right": 1},
        critical=critical,
        review=REVIEW,
        label_provenance={"corpus_revision": "ab" * 32},
    )


def cases(count: int, *, critical: Sequence[int] = ()) -> list[Case]:
    return [case(number, critical=number in critical) for number in range(count)]


def outcome(number: int, answer: Any, *, latency_ms: float = 1.0, error_code: str | None = None) -> Outcome:
    return Outcome(case_id=uuid.UUID(int=number), answer=answer, latency_ms=latency_ms, error_code=error_code)


def leg(answers: Sequence[Any], **gateway_latency_ms: Mapping[uuid.UUID, float]) -> ReportedLeg:
    """Return a leg with an answer per case; an Outcome stands for itself, and None for a missing case."""
    outcomes = [
        one if isinstance(one, Outcome) else outcome(number, one)
        for number, one in enumerate(answers)
        if one is not None
    ]
    return ReportedLeg(outcomes={one.case_id: one for one in outcomes}, **gateway_latency_ms)


def failed(number: int, error_code: str = "TIMEOUT") -> Outcome:
    return outcome(number, [], error_code=error_code)


def ranking(*chunk_ids: str) -> list[dict[str, Any]]:
    """Return an answer of the capability `rag.embedding@1`, with scores that would sort it the other way round."""
    return [{"chunk_id": chunk, "document_id": None, "score": float(place)} for place, chunk in enumerate(chunk_ids)]


@dataclass(frozen=True)
class Decisions:
    """Labelled decisions: the answer is the option's id and a probability, and a case's label is the right option."""

    name: ClassVar[str] = "decide@1"
    metrics_version: ClassVar[str] = "decide-1"
    metrics: ClassVar[tuple[Metric, ...]] = (
        Metric(name="brier", title="Brier score", higher_is_better=False),
        Metric(name="accuracy", title="accuracy"),
    )

    def profile_of(self, side: Side) -> dict[str, Any]:
        return {"artifact": str(side.artifact.id)}

    def case_of(self, case: Case) -> dict[str, Any]:
        return {"case_id": str(case.case_id), "state": case.query}

    def input_sha256(self, case: Case) -> str:
        return case.query

    def measure(self, case: Case, answer: Any, *, settings: Mapping[str, Any]) -> tuple[float, ...]:
        is_right = self.is_passed(case, answer, settings=settings)
        return (answer["probability"] - is_right) ** 2, float(is_right)

    def is_passed(self, case: Case, answer: Any, *, settings: Mapping[str, Any]) -> bool:
        return answer["option"] in case.labels

    def unjudged(self, case: Case, answer: Any, *, settings: Mapping[str, Any]) -> list[str]:
        return []
