"""The tables of a report, as printable text."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from steelyard.hall.texts import shorten
from steelyard.hub.reports.document import CLOCKS, LEGS
from steelyard.hub.reports.figures import UNKNOWN, figure, interval, milliseconds, p_value, signed

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from steelyard.hub.reports.document import Answer, Case, Metric, Regression, Report

_TOP = 5
_VALUE = 120
_QUERY = 80
_MEASURED_BY = {"reported": "as the consumer reported it", "gateway": "as the gateway measured it"}


@dataclass(frozen=True)
class Column:
    """A column; numbers stand at its right end."""

    heading: str
    is_number: bool = False


@dataclass(frozen=True)
class Table:
    """Rows of cells; the first cell of a row names it."""

    caption: str
    columns: tuple[Column, ...]
    rows: tuple[tuple[str, ...], ...]


def metrics_table(report: Report) -> Table:
    """Return both legs' metrics and how they differ."""
    columns = (
        Column("metric"), Column("current", True), Column("candidate", True), Column("Δ", True),
        Column("95 % interval", True), Column("p", True), Column("win/tie/loss", True),
    )  # fmt: skip
    return Table("Metrics of both legs", columns, tuple(_metric(metric) for metric in report.metrics))


def _metric(metric: Metric) -> tuple[str, ...]:
    return (
        f"{shorten(metric.title)}{' *' * metric.is_primary}{' ↓' * (not metric.higher_is_better)}",
        figure(metric.current),
        figure(metric.candidate),
        signed(metric.delta),
        interval(metric.interval),
        p_value(metric.p_value),
        f"{metric.wins}/{metric.ties}/{metric.losses}",
    )


def rankings_table(regression: Regression) -> Table:
    """Return what stands at the top of each leg, with the grade of what is labelled."""
    depth = min(_TOP, max(len(regression.current.results), len(regression.candidate.results)))
    rows = (
        (str(place + 1), _ranked(regression.current, place), _ranked(regression.candidate, place))
        for place in range(depth)
    )
    return Table("Top results", (Column("rank", True), Column("current"), Column("candidate")), tuple(rows))


def _ranked(answer: Answer, place: int) -> str:
    if place >= len(answer.results):
        return UNKNOWN
    result = answer.results[place]
    return f"{shorten(result.chunk_id)} ({'unjudged' if result.grade is None else f'grade {result.grade}'})"


def changes_table(cases: Sequence[Case], *, caption: str) -> Table:
    """Return cases with the primary metric of both legs."""
    columns = (Column("query"), Column("current", True), Column("candidate", True), Column("Δ", True), Column("notes"))
    return Table(caption, columns, tuple(_change(case) for case in cases))


def _change(case: Case) -> tuple[str, ...]:
    notes = ["critical"] if case.is_critical else []
    errors = (("current", case.current_error), ("candidate", case.candidate_error))
    notes += [f"{leg} {shorten(error)}" for leg, error in errors if error]
    query = shorten(case.query, limit=_QUERY)
    return query, figure(case.current), figure(case.candidate), signed(case.delta), ", ".join(notes)


def latency_table(report: Report) -> Table:
    """Return the percentiles of each leg, by who measured."""
    columns = (Column("latency in ms"), *(Column(f"{leg} {p}", True) for leg in LEGS for p in ("p50", "p95")))
    rows = tuple(
        (
            _MEASURED_BY[clock],
            *(milliseconds(report.legs[leg].percentiles_ms[clock].get(p)) for leg in LEGS for p in ("p50", "p95")),
        )
        for clock in CLOCKS
    )
    return Table("Latency of the successful cases", columns, rows)


def errors_table(report: Report) -> Table:
    """Return what failed on each leg and what nobody has judged."""
    columns = (Column("leg"), Column("errors", True), Column("unjudged", True), Column("error codes"))
    rows = tuple(
        (leg, str(of_leg.error_count), str(of_leg.unjudged_count), _codes(of_leg.errors))
        for leg, of_leg in report.legs.items()
    )
    return Table("Errors and unjudged results by leg", columns, rows)


def _codes(errors: Mapping[str, int]) -> str:
    return ", ".join(f"{shorten(code)} ×{count}" for code, count in errors.items()) or UNKNOWN


def subject_table(report: Report) -> Table:
    """Return what both legs have in common, and when it was."""
    suite, times = report.suite, report.times
    facts = {
        "comparison": report.comparison_id,
        "project": report.project_id,
        "binding": f"{report.project_binding_id}, {report.capability}",
        "consumer": report.consumer_client_id,
        "consumer's revision digest": report.consumer_revision_sha256,
        "suite": f"{suite['slug']}, revision {suite['number']}, {suite['case_count']} cases",
        "suite revision": suite["revision_id"],
        "suite digest": suite["digest"],
        "corpus digest": report.corpus_sha256,
        "retrieval settings' digest": report.retrieval_config_sha256,
        "digest of all pins": report.pins_digest,
        "metrics version": report.verdict.metrics_version if report.verdict else None,
        "state": report.status.code,
        "error code": report.error.code if report.error else None,
        **{name.removesuffix("_at").replace("_", " "): moment for name, moment in times.items()},
    }
    return Table("Comparison", (Column("fact"), Column("value")), tuple((name, _cell(facts[name])) for name in facts))


def sides_table(report: Report) -> Table:
    """Return the pins of both sides line by line; ≠ marks where they differ."""
    current, candidate = (dict(_flat(report.sides[leg])) for leg in LEGS)
    names = sorted(current.keys() | candidate.keys())
    rows = tuple(
        (shorten(name), _cell(current.get(name)), _cell(candidate.get(name)), _differs(current, candidate, name))
        for name in names
    )
    return Table("Pins of both sides", (Column("pin"), Column("current"), Column("candidate"), Column("≠", True)), rows)


def _flat(value: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for name, item in value.items():
        if isinstance(item, dict):
            yield from _flat(item, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", item


def _differs(current: Mapping[str, Any], candidate: Mapping[str, Any], name: str) -> str:
    return "" if current.get(name) == candidate.get(name) else "≠"


def _cell(value: object) -> str:
    if value is None:
        return UNKNOWN
    if isinstance(value, bool):
        return "yes" if value else "no"
    return shorten(str(value), limit=_VALUE) or "(empty)"
