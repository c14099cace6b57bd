"""Whether a candidate may be promoted: three verdicts, from bounds and not from a mean's luck.

It promotes nothing and knows no metric by name. A candidate may be a little worse, by less than the rule's margin:
this is a test of non-inferiority, so that an equal candidate can pass, which a test of superiority would refuse.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from steelyard.hall.texts import plural
from steelyard.hub.suites.domain import MOST_CASES

if TYPE_CHECKING:
    from steelyard.hub.comparisons.domain.statistics import Paired

Eligibility = Literal["eligible", "ineligible", "inconclusive"]
_Z_BOUND = 1.6449  # Of 95 %, the bound's confidence.
_Z_POWER = 0.8416  # Of 80 %, the runs that are to pass.


@dataclass(frozen=True, kw_only=True)
class Rule:
    """What a candidate must keep to; *margin* is in the primary metric's own unit. Raises ValueError in words.

    `dataclasses.asdict` makes it plain JSON, and `Rule(**fields)` reads that again.
    """

    margin: float = 0.05
    minimum_cases: int = 30
    candidate_error_rate_limit: float = 0.0

    def __post_init__(self) -> None:
        if not 0 <= self.margin <= 1:
            raise ValueError(f"margin is {self.margin}: it must be from 0 to 1")
        if self.minimum_cases < 1:
            raise ValueError(f"minimum_cases is {self.minimum_cases}: it must be 1 or more")
        if not 0 <= self.candidate_error_rate_limit <= 1:
            raise ValueError(f"candidate_error_rate_limit is {self.candidate_error_rate_limit}: it must be from 0 to 1")


@dataclass(frozen=True, kw_only=True)
class Reason:
    """Why a verdict is what it is: a stable code, and a sentence with the numbers and what to do."""

    code: str
    detail: str


@dataclass(frozen=True, kw_only=True)
class Findings:
    """What the verdict rests on; *gain* is the primary metric's, turned so that a rise is better."""

    case_count: int
    incomparable: tuple[Reason, ...]
    critical_regressions: tuple[str, ...]
    candidate_error_count: int
    metric: str
    gain: Paired


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """An eligibility with every reason of its kind; *cases_needed* is for the inconclusive, where more could help."""

    eligibility: Eligibility
    reasons: tuple[Reason, ...] = ()
    cases_needed: int | None = None


def judge(findings: Findings, *, rule: Rule) -> Verdict:
    """Return the verdict: what makes a candidate ineligible comes before what leaves it open."""
    refused = tuple(reason for check in _REFUSALS if (reason := check(findings, rule)))
    if refused:
        return Verdict(eligibility="ineligible", reasons=refused)
    needed = cases_needed(findings.gain, case_count=findings.case_count, rule=rule)
    doubts = tuple(reason for check in _DOUBTS if (reason := check(findings, rule, needed)))
    if doubts:
        return Verdict(eligibility="inconclusive", reasons=doubts, cases_needed=needed)
    return Verdict(eligibility="eligible")


def cases_needed(gain: Paired, *, case_count: int, rule: Rule) -> int | None:
    """Return how many cases like these would pass in 8 of 10 runs, if *gain* is the true one; more than there are.

    It is ((z.95 + z.80)·spread / (delta + margin))², the usual size of a paired non-inferiority trial: Julious, Sample
    sizes for clinical trials with Normal data (2004), section 5; Sakai, Topic set size design (2016), has it for
    retrieval. None where the candidate is worse by the margin or more, for then more cases would only show it.
    """
    slack = gain.delta + rule.margin
    if slack <= 0:
        return None
    needed = math.ceil(((_Z_BOUND + _Z_POWER) * gain.spread / slack) ** 2)
    return max(needed, rule.minimum_cases, case_count + 1)


def _not_comparable(findings: Findings, _rule: Rule) -> Reason | None:
    if not findings.incomparable:
        return None
    why = " ".join(reason.detail for reason in findings.incomparable)
    return Reason(code="NOT_COMPARABLE", detail=f"The two legs cannot be compared. {why}")


def _critical_regressions(findings: Findings, _rule: Rule) -> Reason | None:
    count = len(findings.critical_regressions)
    if not count:
        return None
    detail = (
        f"The candidate loses {plural(count, 'critical case')} that the current deployment passes, first "
        f"{findings.critical_regressions[0]}. Look at what both retrieved there; one such case is enough to refuse."
    )
    return Reason(code="CRITICAL_REGRESSION", detail=detail)


def _candidate_errors(findings: Findings, rule: Rule) -> Reason | None:
    share = findings.candidate_error_count / findings.case_count
    if share <= rule.candidate_error_rate_limit:
        return None
    detail = (
        f"The candidate failed or left unanswered {findings.candidate_error_count} of "
        f"{plural(findings.case_count, 'case')}, {share:.1%}; the limit is {rule.candidate_error_rate_limit:.1%}. "
        "Mend what the error codes name, and compare again."
    )
    return Reason(code="CANDIDATE_ERRORS", detail=detail)


def _worse(findings: Findings, rule: Rule) -> Reason | None:
    upper = findings.gain.one_sided[1]
    if upper >= -rule.margin:
        return None
    detail = (
        f"The candidate's gain in {findings.metric} is {_signed(findings.gain.delta)}, with 95 % confidence at most "
        f"{_signed(upper)}: it is worse by more than the margin of {rule.margin:g}. Look at the cases it loses, or "
        "try another candidate."
    )
    return Reason(code="WORSE_THAN_MARGIN", detail=detail)


def _too_few(findings: Findings, rule: Rule, _needed: int | None) -> Reason | None:
    if findings.case_count >= rule.minimum_cases:
        return None
    detail = (
        f"The suite has {plural(findings.case_count, 'case')}, and the rule asks for {rule.minimum_cases} or more. "
        "Import a revision with more reviewed cases."
    )
    return Reason(code="TOO_FEW_CASES", detail=detail)


def _uncertain(findings: Findings, rule: Rule, needed: int | None) -> Reason | None:
    lower = findings.gain.one_sided[0]
    if lower > -rule.margin:
        return None
    detail = (
        f"The candidate's gain in {findings.metric} is {_signed(findings.gain.delta)}, but with "
        f"{plural(findings.case_count, 'case')} one of {_signed(lower)} cannot be ruled out with 95 % confidence, and "
        f"the margin is {rule.margin:g}. {_advice(needed)}"
    )
    return Reason(code="DIFFERENCE_UNCERTAIN", detail=detail)


def _advice(needed: int | None) -> str:
    if needed is None:
        return "As it looks, the candidate is worse by the margin or more: more cases would hardly help it."
    if needed > MOST_CASES:
        return (
            f"It would take about {needed} cases like these, and a suite holds {MOST_CASES}: let the cases be less "
            "mixed, accept a wider margin, or try a better candidate."
        )
    return f"About {needed} cases like these would do in 8 of 10 runs: add reviewed cases."


def _signed(value: float) -> str:
    return f"{value:+.4f}"


_REFUSALS = (_not_comparable, _critical_regressions, _candidate_errors, _worse)
_DOUBTS = (_too_few, _uncertain)
