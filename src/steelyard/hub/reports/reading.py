"""Makes a report of what the hub's API tells: the comparison and its cases.

What was measured, and which metric decides, is in the data. Equal data make an equal report.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from steelyard.hub.reports.document import (
    CLOCKS,
    LEGS,
    Answer,
    Case,
    Explained,
    Leg,
    Metric,
    Regression,
    Report,
    Result,
    Verdict,
)
from steelyard.hub.reports.words import CODES, STATUSES, VERDICTS, statements

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

_LATENCY_FIELDS = {"reported": "latency_ms", "gateway": "gateway_latency_ms"}
_TIMES = ("created_at", "claimed_at", "claim_expires_at", "deadline_at", "ended_at")


def report_of(comparison: Mapping[str, Any], cases: Iterable[Mapping[str, Any]]) -> Report:
    """Return the report of a comparison and its cases, both as the API gives them, the cases in the suite's order."""
    summary, error_code = comparison["evaluation_summary"], comparison["error_code"]
    found = list(cases) if summary else []
    metrics = _metrics(summary)
    changes = _changes(found, metrics)
    return Report(
        report_version=1,
        comparison_id=comparison["id"],
        capability=comparison["capability"],
        project_id=comparison["project_id"],
        project_binding_id=comparison["project_binding_id"],
        consumer_client_id=comparison["consumer_client_id"],
        status=_explained(comparison["status"], STATUSES),
        error=None if error_code is None else _explained(error_code, CODES),
        times={name: comparison[name] for name in _TIMES},
        completed_cases={leg: comparison[f"{leg}_completed_cases"] for leg in LEGS},
        case_count=comparison["case_count"],
        verdict=_verdict(summary) if summary else None,
        critical_regressions=_regressions(summary, found),
        metrics=metrics,
        losses=_most(changes, sign=-1),
        gains=_most(changes, sign=1),
        cases=changes,
        legs={leg: _leg(leg, summary["legs"][leg], found) for leg in LEGS if summary},
        suite=comparison["pins"]["suite"],
        sides={leg: comparison["pins"][leg] for leg in LEGS},
        corpus_sha256=comparison["corpus_sha256"],
        retrieval_config_sha256=comparison["retrieval_config_sha256"],
        pins_digest=comparison["pins_digest"],
        consumer_revision_sha256=comparison["consumer_revision_sha256"],
        production_promotion_performed=comparison["production_promotion_performed"],
        statements=statements(comparison),
    )


def _explained(code: str, meanings: Mapping[str, str]) -> Explained:
    return Explained(code=code, meaning=meanings.get(code, meanings[""]))


def _reasons(reasons: Iterable[Mapping[str, Any]]) -> tuple[Explained, ...]:
    return tuple(Explained(code=reason["code"], meaning=reason["detail"]) for reason in reasons)


def _verdict(summary: Mapping[str, Any]) -> Verdict:
    return Verdict(
        eligibility=summary["eligibility"],
        meaning=_explained(summary["eligibility"], VERDICTS).meaning,
        reasons=_reasons(summary["reasons"]),
        is_comparable=summary["comparable"],
        comparability_reasons=_reasons(summary["comparability_reasons"]),
        cases_needed=summary["cases_needed"],
        case_count=summary["case_count"],
        critical_case_count=summary["critical_case_count"],
        rule=summary["rule"],
        metrics_version=summary["metrics_version"],
        bootstrap=summary["bootstrap"],
    )


def _metrics(summary: Mapping[str, Any] | None) -> tuple[Metric, ...]:
    """Return the metrics, the primary one first and the others by name: an object's order says nothing."""
    if not summary:
        return ()
    primary = summary["primary_metric"]
    named = sorted(summary["metric_deltas"].items(), key=lambda item: (item[0] != primary, item[0]))
    return tuple(_metric(name, delta, is_primary=name == primary) for name, delta in named)


def _metric(name: str, delta: Mapping[str, Any], *, is_primary: bool) -> Metric:
    plain = ("title", "higher_is_better", "current", "candidate", "delta", "p_value", "wins", "ties", "losses")
    return Metric(
        name=name,
        is_primary=is_primary,
        interval=_pair(delta["interval"]),
        one_sided=_pair(delta["one_sided"]),
        **{field: delta[field] for field in plain},
    )


def _pair(bounds: Sequence[float] | None) -> tuple[float, float] | None:
    return None if bounds is None else (bounds[0], bounds[1])


def _changes(cases: Sequence[Mapping[str, Any]], metrics: Sequence[Metric]) -> tuple[Case, ...]:
    return tuple(_change(case, metrics[0]) for case in cases if metrics)


def _change(case: Mapping[str, Any], primary: Metric) -> Case:
    current, candidate = (_value(case[leg], primary.name) for leg in LEGS)
    delta = None if current is None or candidate is None else candidate - current
    better = 1 if primary.higher_is_better else -1
    return Case(
        case_id=case["case_id"],
        query=case["query"],
        is_critical=case["critical"],
        current=current,
        candidate=candidate,
        delta=delta,
        improvement=None if delta is None else delta * better,
        current_error=_error(case["current"]),
        candidate_error=_error(case["candidate"]),
    )


def _value(outcome: Mapping[str, Any] | None, metric: str) -> float | None:
    return (outcome["metrics"] or {}).get(metric) if outcome else None


def _error(outcome: Mapping[str, Any] | None) -> str | None:
    return outcome["error_code"] if outcome else None


def _most(cases: Sequence[Case], *, sign: int, count: int = 5) -> tuple[Case, ...]:
    """Return the cases that changed most in one direction, in the suite's order where they changed alike."""
    moved = [case for case in cases if case.improvement is not None and case.improvement * sign > 0]
    return tuple(sorted(moved, key=lambda case: -abs(case.improvement or 0))[:count])


def _regressions(summary: Mapping[str, Any] | None, cases: Sequence[Mapping[str, Any]]) -> tuple[Regression, ...]:
    regressed = set(summary["critical_regressions"]) if summary else set()
    return tuple(
        Regression(
            case_id=case["case_id"],
            query=case["query"],
            label_count=len(case["labels"]),
            **{leg: _answer(case[leg], case["labels"]) for leg in LEGS},
        )
        for case in cases
        if case["case_id"] in regressed
    )


def _answer(outcome: Mapping[str, Any], labels: Mapping[str, int]) -> Answer:
    return Answer(
        error_code=outcome["error_code"],
        gateway_request_id=outcome["gateway_request_id"],
        results=tuple(
            _result(rank, item, labels) for rank, item in enumerate(outcome.get("ranked_results", ()), start=1)
        ),
    )


def _result(rank: int, item: Mapping[str, Any], labels: Mapping[str, int]) -> Result:
    chunk_id = item["chunk_id"]
    return Result(
        rank=rank,
        chunk_id=chunk_id,
        document_id=item.get("document_id"),
        score=item["score"],
        grade=labels.get(chunk_id),
    )


def _leg(leg: str, summary: Mapping[str, Any], cases: Sequence[Mapping[str, Any]]) -> Leg:
    outcomes = [case[leg] for case in cases if case[leg]]
    codes = sorted(outcome["error_code"] for outcome in outcomes if outcome["error_code"])
    return Leg(
        error_count=summary["error_count"],
        errors={code: codes.count(code) for code in codes},
        unjudged_count=summary["unjudged_count"],
        percentiles_ms={clock: dict((summary["latency_ms"] or {}).get(clock) or {}) for clock in CLOCKS},
        latencies_ms={clock: _latencies(outcomes, _LATENCY_FIELDS[clock]) for clock in CLOCKS},
    )


def _latencies(outcomes: Iterable[Mapping[str, Any]], field: str) -> tuple[float, ...]:
    return tuple(item[field] for item in outcomes if not item["error_code"] and item[field] is not None)
