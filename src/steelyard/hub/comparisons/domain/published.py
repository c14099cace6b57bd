"""What a comparison was published with: both evaluation runs, written once, and how one case of them reads."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime
    from uuid import UUID

    from steelyard.hub.comparisons.domain.capability import Leg, Outcome


@dataclass(frozen=True, kw_only=True)
class Result:
    """One case of a run: what was reported, its metrics, and the log's row that is its evidence, if it has one."""

    outcome: Outcome
    metrics: Mapping[str, float]
    row_id: int | None


@dataclass(frozen=True, kw_only=True)
class Run:
    """One leg's evaluation run."""

    id: UUID
    deployment_id: UUID
    results: tuple[Result, ...]


@dataclass(frozen=True, kw_only=True)
class Published:
    """Everything that is written together with a comparison's completion."""

    comparison_id: UUID
    at: datetime
    runs: Mapping[Leg, Run]
    summary: dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class LegReport:
    """What one leg gave for a case, and how it was judged; *answer* is in the capability's form."""

    answer: Any
    latency_ms: float
    error_code: str | None
    metrics: dict[str, float]
    gateway_request_id: str | None
    gateway_latency_ms: float | None


@dataclass(frozen=True, kw_only=True)
class CaseReport:
    """One case of the suite with what both legs gave; nothing where the comparison has no result."""

    case_id: UUID
    query: str
    critical: bool
    labels: dict[str, int]
    current: LegReport | None
    candidate: LegReport | None
