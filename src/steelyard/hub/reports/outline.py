"""A report as sections of sentences, tables and plots: the one order and wording that every format has."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from steelyard.hall.texts import plural, shorten
from steelyard.hub.reports.tables import (
    Table,
    changes_table,
    errors_table,
    latency_table,
    metrics_table,
    rankings_table,
    sides_table,
    subject_table,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from steelyard.hub.reports.document import Explained, Regression, Report, Verdict

_QUERY = 300
_DETAIL = 1000


@dataclass(frozen=True)
class Paragraph:
    """Some sentences."""

    text: str


@dataclass(frozen=True)
class Bullets:
    """A list of sentences."""

    items: tuple[str, ...]


@dataclass(frozen=True)
class Heading:
    """A heading inside a section."""

    text: str


@dataclass(frozen=True)
class Plot:
    """Where a plot of this name stands, in a format that can draw; the table beside it says the same."""

    name: str


Block = Paragraph | Bullets | Heading | Plot | Table


@dataclass(frozen=True)
class Section:
    """A part of the report; *name* is its anchor."""

    name: str
    title: str
    blocks: tuple[Block, ...]


def title_of(report: Report) -> str:
    """Return what was compared and how it came out, in one line."""
    current, candidate = (_deployment(report, leg) for leg in ("current", "candidate"))
    return f"{current} against {candidate}: {outcome_of(report).replace('_', ' ')}"


def outcome_of(report: Report) -> str:
    """Return the verdict, or the state of a comparison that has none, in one word."""
    return shorten(report.verdict.eligibility if report.verdict else report.status.code)


def outline(report: Report) -> tuple[Section, ...]:
    """Return the sections, what an operator needs first of all first. All text is printable."""
    evidence = _evidence(report) if report.verdict else ()
    return (
        Section("verdict", "Verdict" if report.verdict else "State", tuple(_verdict_blocks(report))),
        *evidence,
        Section("compared", "What was compared", (subject_table(report), sides_table(report))),
        Section("limits", "What this report is not", (Bullets(report.statements),)),
    )


def _evidence(report: Report) -> tuple[Section, ...]:
    return (
        Section("critical", "Critical regressions", tuple(_regressions(report))),
        Section("metrics", "Metrics", (metrics_table(report), Paragraph(_metrics_key(report)), Plot("deltas"))),
        Section("cases", "Cases that changed most", tuple(_changes(report))),
        Section("latency", "Latency", (latency_table(report), Plot("latencies"))),
        Section("errors", "Errors and unjudged results", (errors_table(report), Paragraph(_UNJUDGED))),
    )


_UNJUDGED = (
    "An unjudged result is one that counted and that no reviewer has labelled for its case. It counts as a miss, which "
    "speaks against a leg that finds new right answers: 'steelyard hub comparisons unjudged' lists them for review."
)


def _deployment(report: Report, leg: str) -> str:
    return shorten(str(report.sides[leg]["deployment"]["slug"]))


def _verdict_blocks(report: Report) -> Iterator[Block]:
    if report.verdict:
        yield Paragraph(_told(report.verdict.eligibility, report.verdict.meaning))
        yield from _reasons(report.verdict)
        yield Paragraph(_rule(report, report.verdict))
        return
    yield Paragraph(_told(report.status.code, report.status.meaning))
    if report.error:
        yield Paragraph(_explained(report.error))
    done = report.completed_cases
    yield Paragraph(
        f"Reported so far: {done['current']} of {plural(report.case_count, 'case')} on the current leg, "
        f"{done['candidate']} on the candidate's. There is no evaluation."
    )


def _told(word: str, meaning: str) -> str:
    return f"{shorten(word).replace('_', ' ').capitalize()}. {meaning}"


def _explained(reason: Explained) -> str:
    return f"{shorten(reason.code)}: {shorten(reason.meaning, limit=_DETAIL)}"


def _reasons(verdict: Verdict) -> Iterator[Block]:
    reasons = [_explained(reason) for reason in verdict.reasons]
    if verdict.cases_needed is not None:
        reasons.append(f"It would take about {plural(verdict.cases_needed, 'case')}; there are {verdict.case_count}.")
    if reasons:
        yield Bullets(tuple(reasons))
    if not verdict.is_comparable:
        yield Paragraph(
            f"Not comparable: {', '.join(shorten(reason.code) for reason in verdict.comparability_reasons)}."
        )


def _rule(report: Report, verdict: Verdict) -> str:
    rule = verdict.rule
    return (
        f"The rule: no critical regression, a candidate error rate of at most {rule['candidate_error_rate_limit']:g}, "
        f"at least {plural(rule['minimum_cases'], 'case')}, and {_primary(report)} not worse by {rule['margin']:g} or "
        "more, by its one-sided 95 % bounds."
    )


def _primary(report: Report) -> str:
    return shorten(report.primary.title) if report.primary else "the primary metric"


def _regressions(report: Report) -> Iterator[Block]:
    count = report.verdict.critical_case_count if report.verdict else 0
    if not report.critical_regressions:
        yield Paragraph(f"None, of {plural(count, 'critical case')}.")
        return
    yield Paragraph(
        f"{len(report.critical_regressions)} of {plural(count, 'critical case')}: the current leg passes and the "
        "candidate does not."
    )
    for regression in report.critical_regressions:
        yield Heading(shorten(regression.query, limit=_QUERY))
        yield Paragraph(_regression(regression))
        yield rankings_table(regression)


def _regression(regression: Regression) -> str:
    found = ". ".join(
        f"{leg.capitalize()}: {_found(regression, leg)}{_request(regression, leg)}" for leg in ("current", "candidate")
    )
    return f"Case {regression.case_id}, {plural(regression.label_count, 'label')}. {found}."


def _found(regression: Regression, leg: str) -> str:
    answer = regression.current if leg == "current" else regression.candidate
    if answer.error_code:
        return f"error {shorten(answer.error_code)}"
    if answer.first_relevant_rank is None:
        return f"nothing relevant in {plural(len(answer.results), 'result')}"
    return f"first relevant at rank {answer.first_relevant_rank}"


def _request(regression: Regression, leg: str) -> str:
    answer = regression.current if leg == "current" else regression.candidate
    return f" (request {shorten(answer.gateway_request_id)})" if answer.gateway_request_id else ""


def _metrics_key(report: Report) -> str:
    verdict = report.verdict
    resamples = verdict.bootstrap["resamples"] if verdict else 0
    return (
        f"Δ is candidate − current, its interval the paired bootstrap's over {resamples:,} resamples, p a paired "
        "sign-flip test's. Wins are cases where the candidate is better. * decides, ↓ is better lower. A case that "
        "failed counts as zero in all but the error rate."
    )


def _changes(report: Report) -> Iterator[Block]:
    for heading, cases in (("Losses", report.losses), ("Gains", report.gains)):
        yield Heading(heading)
        yield (
            changes_table(cases, caption=f"{heading} in {_primary(report)}, the largest first")
            if cases
            else Paragraph("None.")
        )
    yield Plot("cases")
