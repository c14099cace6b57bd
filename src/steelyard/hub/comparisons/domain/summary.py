"""What two legs of a comparison come to: the metrics, their differences and the verdict, in one pure function.

It knows a capability by its port alone, and no metric by name but the error rate.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from steelyard.hub.comparisons.domain.capability import LEGS
from steelyard.hub.comparisons.domain.eligibility import Findings, Reason, judge
from steelyard.hub.comparisons.domain.measured import MeasuredLeg, ReportedLeg, measure_leg, metrics_of
from steelyard.hub.comparisons.domain.statistics import RESAMPLES, Paired, compare, mean

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from uuid import UUID

    from steelyard.hub.comparisons.domain.capability import Capability, Leg, Metric
    from steelyard.hub.comparisons.domain.eligibility import Rule
    from steelyard.hub.suites.domain import Case


@dataclass(frozen=True, kw_only=True)
class Evaluation:
    """The *summary*, plain JSON, and each case's number of each metric: by leg, case id and the metric's name."""

    summary: dict[str, Any]
    values: Mapping[Leg, Mapping[UUID, dict[str, float]]]


def evaluate(  # noqa: PLR0913  # Each is a thing of its own, and those that could be confused are named.
    capability: Capability,
    cases: Sequence[Case],
    legs: Mapping[Leg, ReportedLeg],
    *,
    settings: Mapping[str, Any],
    rule: Rule,
    seed: str,
    has_same_pins: bool = True,
) -> Evaluation:
    """Evaluate both *legs* over a suite's *cases*, of which there is at least one; *seed* is the pins' digest.

    *settings* are the suite revision's retrieval settings. Raises ValueError where the capability's numbers are not as
    its port says.
    """
    metrics = metrics_of(capability, settings)
    measured = {leg: measure_leg(capability, cases, legs[leg], settings=settings) for leg in LEGS}
    paired = compare(*([*measured[leg].values.values()] for leg in LEGS), seed=seed)
    findings = Findings(
        case_count=len(cases),
        incomparable=tuple(_incomparable(cases, legs, has_same_pins=has_same_pins)),
        critical_regressions=tuple(_critical_regressions(cases, measured)),
        candidate_error_count=measured["candidate"].error_count,
        metric=metrics[0].title,
        gain=paired[0] if metrics[0].higher_is_better else paired[0].mirrored(),
    )
    summary = {
        "metrics_version": capability.metrics_version,
        "critical_case_count": sum(case.critical for case in cases),
        **_verdict(findings, rule),
        "primary_metric": metrics[0].name,
        "metric_deltas": _deltas(metrics, measured, paired),
        "legs": {leg: measured[leg].summary() for leg in LEGS},
        "bootstrap": {"resamples": RESAMPLES, "seed": seed},
    }
    return Evaluation(summary=summary, values={leg: _named(metrics, measured[leg]) for leg in LEGS})


def _incomparable(cases: Sequence[Case], legs: Mapping[Leg, ReportedLeg], *, has_same_pins: bool) -> Iterator[Reason]:
    """Give every reason why the legs' difference would not be the deployments'."""
    if not has_same_pins:
        yield Reason(code="PINS_DIFFER", detail="The legs do not have the same pins. Create a new comparison.")
    for leg in LEGS:
        yield from _of_another_suite(leg, cases, legs[leg])
    current, answered = legs["current"].outcomes, legs["current"].answered
    failed = [case.case_id for case in cases if case.case_id in current and case.case_id not in answered]
    if failed:
        detail = (
            f"The current leg failed in {len(failed)} of {len(cases)} cases, first {failed[0]} with "
            f"{current[failed[0]].error_code}: that would flatter the candidate. Mend it and compare "
            "again."
        )
        yield Reason(code="CURRENT_LEG_ERRORS", detail=detail)


def _of_another_suite(leg: Leg, cases: Sequence[Case], reported: ReportedLeg) -> Iterator[Reason]:
    suite = {case.case_id: None for case in cases}  # In its order, and quick to ask.
    missing = [case_id for case_id in suite if case_id not in reported.outcomes]
    if missing:
        detail = f"The {leg} leg has no result for {len(missing)} of {len(suite)} cases, first {missing[0]}."
        yield Reason(code="CASES_MISSING", detail=detail)
    foreign = [case_id for case_id in reported.outcomes if case_id not in suite]
    if foreign:
        detail = f"The {leg} leg has results for cases that the suite does not have, first {foreign[0]}."
        yield Reason(code="CASES_OF_ANOTHER_SUITE", detail=detail)


def _critical_regressions(cases: Sequence[Case], measured: Mapping[Leg, MeasuredLeg]) -> Iterator[str]:
    """Give the critical cases that the current leg passes and the candidate does not, in the suite's order."""
    lost = measured["current"].passed - measured["candidate"].passed
    return (str(case.case_id) for case in cases if case.critical and case.case_id in lost)


def _verdict(findings: Findings, rule: Rule) -> dict[str, Any]:
    verdict = judge(findings, rule=rule)
    return {
        "case_count": findings.case_count,
        "comparable": not findings.incomparable,
        "comparability_reasons": [asdict(reason) for reason in findings.incomparable],
        "eligibility": verdict.eligibility,
        "reasons": [asdict(reason) for reason in verdict.reasons],
        "cases_needed": verdict.cases_needed,
        "rule": asdict(rule),
        "critical_regression_count": len(findings.critical_regressions),
        "critical_regressions": list(findings.critical_regressions),
    }


def _deltas(
    metrics: Sequence[Metric], measured: Mapping[Leg, MeasuredLeg], paired: Sequence[Paired]
) -> dict[str, dict[str, Any]]:
    means = {leg: [mean(column) for column in zip(*measured[leg].values.values(), strict=True)] for leg in LEGS}
    every = zip(metrics, means["current"], means["candidate"], paired, strict=True)
    return {
        metric.name: {
            "title": metric.title,
            "higher_is_better": metric.higher_is_better,
            "current": current,
            "candidate": candidate,
            **_delta(one, metric),
        }
        for metric, current, candidate, one in every
    }


def _delta(one: Paired, metric: Metric) -> dict[str, Any]:
    """Return *one* as the summary has it: a win is a case in which the candidate is better, be that higher or lower."""
    wins, losses = (one.rises, one.falls) if metric.higher_is_better else (one.falls, one.rises)
    return {
        "delta": one.delta,
        "interval": list(one.interval),
        "one_sided": list(one.one_sided),
        "p_value": one.p_value,
        "wins": wins,
        "ties": one.ties,
        "losses": losses,
    }


def _named(metrics: Sequence[Metric], leg: MeasuredLeg) -> dict[UUID, dict[str, float]]:
    names = [metric.name for metric in metrics]
    return {case_id: dict(zip(names, row, strict=True)) for case_id, row in leg.values.items()}
