"""One leg of a comparison, measured case by case.

A case that failed, or that the leg does not have, counts as the worst number of each metric, so that silence never
makes a mean better: as zero, or as one where lower is better, as in the error rate, which every capability has.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from steelyard.hub.comparisons.domain.capability import Metric
from steelyard.hub.comparisons.domain.statistics import percentile, rounded

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from uuid import UUID

    from steelyard.hub.comparisons.domain.capability import Capability, Outcome
    from steelyard.hub.suites.domain import Case

ERROR_RATE = Metric(name="error_rate", title="error rate", higher_is_better=False)


@dataclass(frozen=True, kw_only=True)
class ReportedLeg:
    """What a consumer reported of one leg, and the milliseconds that the gateway measured where a request is mapped.

    Both are by case id. A case of the suite without an outcome is a missing one.
    """

    outcomes: Mapping[UUID, Outcome]
    gateway_latency_ms: Mapping[UUID, float] = field(default_factory=dict)

    @property
    def answered(self) -> dict[UUID, Outcome]:
        """The outcomes that have an answer; an empty one is one."""
        return {case_id: outcome for case_id, outcome in self.outcomes.items() if outcome.error_code is None}


@dataclass(frozen=True, kw_only=True)
class MeasuredLeg:
    """A leg's numbers; *values* has a row for every case, in the suite's order, that ends with its error rate."""

    reported: ReportedLeg
    values: Mapping[UUID, tuple[float, ...]]
    passed: frozenset[UUID]
    unjudged_count: int

    @property
    def error_count(self) -> int:
        """How many cases failed or are missing."""
        return int(sum(row[-1] for row in self.values.values()))

    def summary(self) -> dict[str, Any]:
        """Return the leg's part of the summary; latencies are those of answered cases."""
        answered = {
            case_id: one.latency_ms for case_id, one in self.reported.answered.items() if case_id in self.values
        }
        gateway = self.reported.gateway_latency_ms
        return {
            "error_count": self.error_count,
            "latency_ms": {
                "reported": _latencies(answered.values()),
                "gateway": _latencies(gateway[case_id] for case_id in answered if case_id in gateway),
            },
            "unjudged_count": self.unjudged_count,
        }


def metrics_of(capability: Capability, settings: Mapping[str, Any]) -> tuple[Metric, ...]:
    """Return the metrics of *capability* and the error rate, with `{k}` in their titles filled in."""
    top_k = str(settings.get("top_k"))
    return tuple(
        Metric(name=one.name, title=one.title.replace("{k}", top_k), higher_is_better=one.higher_is_better)
        for one in (*capability.metrics, ERROR_RATE)
    )


def measure_leg(
    capability: Capability, cases: Sequence[Case], reported: ReportedLeg, *, settings: Mapping[str, Any]
) -> MeasuredLeg:
    """Measure *reported* over *cases*; raises ValueError where the capability's numbers are not as its port says."""
    answers = {case_id: outcome.answer for case_id, outcome in reported.answered.items()}
    silent = tuple(0.0 if metric.higher_is_better else 1.0 for metric in (*capability.metrics, ERROR_RATE))
    values = {case.case_id: silent for case in cases}
    passed, unjudged_count = set(), 0
    for case in cases:
        if case.case_id not in answers:
            continue
        answer = answers[case.case_id]
        numbers = capability.measure(case, answer, settings=settings)
        values[case.case_id] = (*_checked(capability, numbers), 0.0)
        unjudged_count += len(capability.unjudged(case, answer, settings=settings))
        if capability.is_passed(case, answer, settings=settings):
            passed.add(case.case_id)
    return MeasuredLeg(reported=reported, values=values, passed=frozenset(passed), unjudged_count=unjudged_count)


def _checked(capability: Capability, numbers: tuple[float, ...]) -> tuple[float, ...]:
    if len(numbers) != len(capability.metrics) or not all(0 <= number <= 1 for number in numbers):
        raise ValueError(f"{capability.name} measured {numbers}: not {len(capability.metrics)} numbers from 0 to 1")
    return tuple(rounded(number) for number in numbers)


def _latencies(values: Iterable[float]) -> dict[str, float | None]:
    every = list(values)
    return {"p50": percentile(every, 50), "p95": percentile(every, 95)}
