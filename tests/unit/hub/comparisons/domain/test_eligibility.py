from __future__ import annotations

import json
from dataclasses import asdict, replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from steelyard.hub.comparisons.domain.eligibility import Findings, Reason, Rule, Verdict, cases_needed, judge
from steelyard.hub.comparisons.domain.statistics import Paired

RULE = Rule()
OTHER_PINS = Reason(code="PINS_DIFFER", detail="The legs do not have the same pins.")
BOUNDS = st.floats(-1, 1)


def gain(delta: float = 0.0, *, lower: float = -0.02, upper: float = 0.02, spread: float = 0.1) -> Paired:
    return Paired(
        delta=delta, spread=spread, interval=(-1, 1), one_sided=(lower, upper), p_value=1.0, rises=0, ties=0, falls=0
    )


def findings(**changes: Any) -> Findings:
    good = Findings(
        case_count=40,
        incomparable=(),
        critical_regressions=(),
        candidate_error_count=0,
        metric="nDCG@10",
        gain=gain(),
    )
    return replace(good, **changes)


def verdict(*, rule: Rule = RULE, **changes: object) -> tuple[str, list[str]]:
    found = judge(findings(**changes), rule=rule)
    return found.eligibility, [reason.code for reason in found.reasons]


def detail(*, rule: Rule = RULE, **changes: object) -> str:
    (reason,) = judge(findings(**changes), rule=rule).reasons
    return reason.detail


def test_an_equal_candidate_is_eligible_without_a_reason():
    assert judge(findings(), rule=RULE) == Verdict(eligibility="eligible", reasons=(), cases_needed=None)


def test_everything_that_refuses_is_told_in_its_order_and_nothing_else():
    found = verdict(
        incomparable=(OTHER_PINS,),
        critical_regressions=("a", "b"),
        candidate_error_count=1,
        gain=gain(-0.3, lower=-0.4, upper=-0.2),
        case_count=10,
    )
    refusals = ["NOT_COMPARABLE", "CRITICAL_REGRESSION", "CANDIDATE_ERRORS", "WORSE_THAN_MARGIN"]
    assert found == ("ineligible", refusals)


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"incomparable": (OTHER_PINS,)}, "NOT_COMPARABLE"),
        ({"critical_regressions": ("a",)}, "CRITICAL_REGRESSION"),
        ({"candidate_error_count": 1}, "CANDIDATE_ERRORS"),
        ({"gain": gain(-0.1, lower=-0.15, upper=-0.051)}, "WORSE_THAN_MARGIN"),
    ],
)
def test_each_refusal_is_enough_and_asks_for_no_more_cases(changes, code):
    assert verdict(**changes) == ("ineligible", [code])
    assert judge(findings(**changes), rule=RULE).cases_needed is None


def test_everything_that_leaves_it_open_is_told():
    assert verdict(case_count=29, gain=gain(lower=-0.06)) == ("inconclusive", ["TOO_FEW_CASES", "DIFFERENCE_UNCERTAIN"])
    assert verdict(case_count=29) == ("inconclusive", ["TOO_FEW_CASES"])
    assert verdict(case_count=30, gain=gain(lower=-0.06)) == ("inconclusive", ["DIFFERENCE_UNCERTAIN"])


def test_bounds_of_exactly_the_margin_leave_it_open():
    assert verdict(gain=gain(-0.05, lower=-0.05, upper=-0.05)) == ("inconclusive", ["DIFFERENCE_UNCERTAIN"])
    assert verdict(gain=gain(-0.03, lower=-0.049999999999, upper=0.0))[0] == "eligible"


def test_an_error_rate_of_exactly_the_limit_is_within_it():
    rule = Rule(candidate_error_rate_limit=0.1)
    assert verdict(rule=rule, candidate_error_count=4)[0] == "eligible"
    assert verdict(rule=rule, candidate_error_count=5) == ("ineligible", ["CANDIDATE_ERRORS"])


@given(BOUNDS, BOUNDS, st.integers(1, 100), st.integers(0, 3))
def test_a_verdict_has_reasons_unless_it_is_eligible(one, other, case_count, error_count):
    lower, upper = sorted((one, other))
    changes = {"gain": gain((lower + upper) / 2, lower=lower, upper=upper), "case_count": case_count}
    found = judge(findings(candidate_error_count=min(error_count, case_count), **changes), rule=RULE)
    assert bool(found.reasons) == (found.eligibility != "eligible")
    assert found.cases_needed is None or found.cases_needed > case_count
    if found.eligibility == "eligible":
        assert lower > -RULE.margin
        assert case_count >= RULE.minimum_cases


def needed(case_count: int = 40, **gained: float) -> int | None:
    return cases_needed(gain(**gained), case_count=case_count, rule=RULE)


def test_the_cases_needed_are_those_of_a_non_inferiority_trial():
    # (1.6449 + 0.8416)² · 0.2² / 0.05² = 98.9
    assert needed(delta=0.0, spread=0.2) == 99
    assert needed(delta=0.05, spread=0.2) == 41
    assert needed(delta=-0.025, spread=0.2) == 396


def test_the_cases_needed_are_never_fewer_than_the_rule_asks_for_or_than_there_are():
    assert needed(delta=0.2, spread=0.1, case_count=5) == 30
    assert needed(delta=0.0, spread=0.0, case_count=5) == 30
    assert needed(delta=0.0, spread=0.1, case_count=40) == 41


def test_no_number_of_cases_is_told_where_the_candidate_is_worse_by_the_margin():
    assert needed(delta=-0.05, spread=0.2) is None
    assert needed(delta=-0.06, spread=0.2) is None


def test_a_verdict_without_a_number_of_cases_says_that_more_would_hardly_help():
    found = judge(findings(gain=gain(-0.06, lower=-0.1, upper=0.0)), rule=RULE)
    assert (found.eligibility, found.cases_needed) == ("inconclusive", None)
    assert "more cases would hardly help" in found.reasons[0].detail


def test_the_sentences_have_the_numbers_and_say_what_to_do():
    assert detail(incomparable=(OTHER_PINS,)) == (
        "The two legs cannot be compared. The legs do not have the same pins."
    )
    assert "loses 2 critical cases" in detail(critical_regressions=("a", "b"))
    assert "loses 1 critical case that the current deployment passes, first a." in detail(critical_regressions=("a",))
    assert "unanswered 3 of 40 cases, 7.5%; the limit is 0.0%" in detail(candidate_error_count=3)
    assert "gain in nDCG@10 is -0.1000, with 95 % confidence at most -0.0600" in detail(
        gain=gain(-0.1, lower=-0.14, upper=-0.06)
    )
    assert "has 12 cases, and the rule asks for 30" in detail(case_count=12)
    assert "one of -0.0700 cannot be ruled out" in detail(gain=gain(lower=-0.07))
    assert "About 67 cases like these would do" in detail(gain=gain(lower=-0.07, spread=0.1641))


def test_more_cases_than_a_suite_holds_are_said_to_be_too_many():
    assert "about 396 cases like these, and a suite holds 100" in detail(gain=gain(-0.025, lower=-0.07, spread=0.2))


def test_a_rule_goes_through_json():
    rule = Rule(margin=0.02, minimum_cases=50, candidate_error_rate_limit=0.1)
    assert Rule(**json.loads(json.dumps(asdict(rule)))) == rule


@pytest.mark.parametrize(
    "fields",
    [
        {"margin": -0.01},
        {"margin": float("nan")},
        {"margin": 1.5},
        {"minimum_cases": 0},
        {"candidate_error_rate_limit": -0.1},
        {"candidate_error_rate_limit": float("nan")},
    ],
)
def test_a_rule_that_makes_no_sense_is_refused_by_its_field(fields):
    with pytest.raises(ValueError, match=next(iter(fields))):
        Rule(**fields)
