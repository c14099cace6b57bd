"""A comparison's report as one value, which every format tells.

It knows no metric by name and no capability.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

Thing = dict[str, Any]
LEGS = ("current", "candidate")
CLOCKS = ("reported", "gateway")


@dataclass(frozen=True, kw_only=True)
class Explained:
    """A stable code or state, and what it means."""

    code: str
    meaning: str


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """What the hub concluded, its reasons first; *rule* is what it concluded by."""

    eligibility: str
    meaning: str
    reasons: tuple[Explained, ...]
    is_comparable: bool
    comparability_reasons: tuple[Explained, ...]
    cases_needed: int | None
    case_count: int
    critical_case_count: int
    rule: Thing
    metrics_version: str
    bootstrap: Thing


@dataclass(frozen=True, kw_only=True)
class Metric:
    """One metric of both legs; *delta* is candidate − current, *interval* its 95 % interval."""

    name: str
    title: str
    is_primary: bool
    higher_is_better: bool
    current: float | None
    candidate: float | None
    delta: float | None
    interval: tuple[float, float] | None
    one_sided: tuple[float, float] | None
    p_value: float | None
    wins: int
    ties: int
    losses: int


@dataclass(frozen=True, kw_only=True)
class Case:
    """What the primary metric says of one case; *improvement* is above 0 where the candidate is better."""

    case_id: str
    query: str
    is_critical: bool
    current: float | None
    candidate: float | None
    delta: float | None
    improvement: float | None
    current_error: str | None
    candidate_error: str | None


@dataclass(frozen=True, kw_only=True)
class Result:
    """One ranked result; *grade* is None where no reviewer has judged it for this case."""

    rank: int
    chunk_id: str
    document_id: str | None
    score: float
    grade: int | None


@dataclass(frozen=True, kw_only=True)
class Answer:
    """What one leg gave for a case."""

    error_code: str | None
    gateway_request_id: str | None
    results: tuple[Result, ...]

    @property
    def first_relevant_rank(self) -> int | None:
        """The rank of the first result with a label."""
        return next((result.rank for result in self.results if result.grade is not None), None)


@dataclass(frozen=True, kw_only=True)
class Regression:
    """A critical case that the current leg passes and the candidate does not."""

    case_id: str
    query: str
    label_count: int
    current: Answer
    candidate: Answer


@dataclass(frozen=True, kw_only=True)
class Leg:
    """One leg over all cases. Latencies are in milliseconds, of the successful cases, by who measured them."""

    error_count: int
    errors: dict[str, int]
    unjudged_count: int
    percentiles_ms: dict[str, Thing]
    latencies_ms: dict[str, tuple[float, ...]]


@dataclass(frozen=True, kw_only=True)
class Report:
    """All of a report; what only a completed comparison has is None or empty elsewhere."""

    report_version: int
    comparison_id: str
    capability: str
    project_id: str
    project_binding_id: str
    consumer_client_id: str
    status: Explained
    error: Explained | None
    times: dict[str, str | None]
    completed_cases: dict[str, int]
    case_count: int
    verdict: Verdict | None
    critical_regressions: tuple[Regression, ...]
    metrics: tuple[Metric, ...]
    losses: tuple[Case, ...]
    gains: tuple[Case, ...]
    cases: tuple[Case, ...]
    legs: dict[str, Leg]
    suite: Thing
    sides: dict[str, Thing]
    corpus_sha256: str
    retrieval_config_sha256: str
    pins_digest: str
    consumer_revision_sha256: str | None
    production_promotion_performed: bool
    statements: tuple[str, ...]

    @property
    def primary(self) -> Metric | None:
        """The metric that decides."""
        return next((metric for metric in self.metrics if metric.is_primary), None)

    @property
    def is_eligible(self) -> bool:
        """Whether the candidate came out as eligible."""
        return self.verdict is not None and self.verdict.eligibility == "eligible"
