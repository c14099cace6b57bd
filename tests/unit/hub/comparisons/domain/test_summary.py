from __future__ import annotations

import json
import uuid
from typing import TYPE_CHECKING, Any

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.hub.comparisons.makers import SEED, Decisions, cases, failed, leg, outcome, ranking

from steelyard.hub.comparisons.capabilities.retrieval import Retrieval
from steelyard.hub.comparisons.domain.eligibility import Rule
from steelyard.hub.comparisons.domain.statistics import rounded
from steelyard.hub.comparisons.domain.summary import Evaluation, evaluate

if TYPE_CHECKING:
    from steelyard.hub.comparisons.domain.capability import Leg
    from steelyard.hub.comparisons.domain.measured import ReportedLeg

SMALL = Rule(minimum_cases=1)
RIGHT, SECOND, WRONG, NOTHING = ranking("right"), ranking("wrong", "right"), ranking("wrong"), ranking()
ANSWERS = st.sampled_from([RIGHT, SECOND, WRONG, NOTHING, "failed", None])


def both(current: ReportedLeg, candidate: ReportedLeg) -> dict[Leg, ReportedLeg]:
    return {"current": current, "candidate": candidate}


def compared(current: list[Any], candidate: list[Any], *, critical: tuple[int, ...] = (), **changes: Any) -> Evaluation:
    suite = cases(max(len(current), len(candidate)), critical=critical)
    legs = both(leg(current), leg(candidate))
    options = {"settings": {"top_k": 10}, "rule": SMALL, "seed": SEED, **changes}
    return evaluate(Retrieval(), suite, legs, **options)


def codes(reasons: list[dict[str, str]]) -> list[str]:
    return [reason["code"] for reason in reasons]


def text_of(number: int) -> str:
    return str(uuid.UUID(int=number))


def test_the_summary_has_exactly_its_form():
    summary = compared([RIGHT, RIGHT], [RIGHT, SECOND], critical=(1,)).summary
    assert {name: value for name, value in summary.items() if name not in {"metric_deltas", "legs"}} == {
        "metrics_version": "rag.embedding-1",
        "case_count": 2,
        "critical_case_count": 1,
        "comparable": True,
        "comparability_reasons": [],
        "eligibility": "inconclusive",
        "reasons": summary["reasons"],
        "cases_needed": None,
        "primary_metric": "ndcg",
        "rule": {"margin": 0.05, "minimum_cases": 1, "candidate_error_rate_limit": 0.0},
        "critical_regression_count": 0,
        "critical_regressions": [],
        "bootstrap": {"resamples": 10_000, "seed": SEED},
    }
    assert list(summary["metric_deltas"]) == ["ndcg", "recall", "mrr", "map", "hit_rate", "judged", "error_rate"]
    assert summary["metric_deltas"]["mrr"] == {
        "title": "MRR@10",
        "higher_is_better": True,
        "current": 1.0,
        "candidate": 0.75,
        "delta": -0.25,
        "interval": [-0.5, 0.0],
        "one_sided": [-0.5, 0.0],
        "p_value": 1.0,
        "wins": 0,
        "ties": 1,
        "losses": 1,
    }
    assert set(summary["legs"]) == {"current", "candidate"}
    assert set(summary["legs"]["current"]) == {"error_count", "latency_ms", "unjudged_count"}
    assert summary["legs"]["candidate"]["unjudged_count"] == 1


def test_the_summary_is_plain_json():
    summary = compared([RIGHT, failed(1)], [None, SECOND]).summary
    assert json.loads(json.dumps(summary, allow_nan=False)) == summary


def test_equal_legs_are_eligible():
    summary = compared([RIGHT] * 30, [RIGHT] * 30, rule=Rule()).summary
    assert (summary["eligibility"], summary["reasons"], summary["cases_needed"]) == ("eligible", [], None)


def test_fewer_cases_than_the_rule_asks_for_are_inconclusive():
    summary = compared([RIGHT] * 29, [RIGHT] * 29, rule=Rule()).summary
    assert (summary["eligibility"], summary["cases_needed"]) == ("inconclusive", 30)


def test_a_metric_s_mean_is_over_all_cases_of_the_suite():
    deltas = compared([RIGHT] * 4, [RIGHT, failed(1), None, NOTHING], rule=SMALL).summary["metric_deltas"]
    assert deltas["ndcg"]["candidate"] == 0.25
    assert deltas["judged"]["candidate"] == 0.25
    assert deltas["error_rate"]["candidate"] == 0.5


def test_an_error_is_a_loss_although_its_number_rises():
    errors = compared([RIGHT] * 3, [failed(0), RIGHT, None]).summary["metric_deltas"]["error_rate"]
    assert (errors["wins"], errors["ties"], errors["losses"]) == (0, 1, 2)
    assert (errors["higher_is_better"], errors["delta"]) == (False, rounded(2 / 3))


def test_values_are_told_by_leg_case_and_name():
    values = compared([RIGHT, failed(1)], [SECOND, RIGHT]).values
    assert values["candidate"][uuid.UUID(int=0)]["mrr"] == 0.5
    assert values["current"][uuid.UUID(int=1)]["error_rate"] == 1.0
    assert list(values["current"]) == [uuid.UUID(int=0), uuid.UUID(int=1)]


def test_other_pins_are_not_comparable_and_so_ineligible():
    summary = compared([RIGHT] * 30, [RIGHT] * 30, has_same_pins=False).summary
    assert (summary["comparable"], codes(summary["comparability_reasons"])) == (False, ["PINS_DIFFER"])
    assert (summary["eligibility"], codes(summary["reasons"])) == ("ineligible", ["NOT_COMPARABLE"])
    assert summary["comparability_reasons"][0]["detail"] in summary["reasons"][0]["detail"]


def test_an_error_in_the_current_leg_is_not_comparable():
    summary = compared([RIGHT, failed(1, "GATEWAY_BUSY")], [RIGHT, RIGHT]).summary
    assert codes(summary["comparability_reasons"]) == ["CURRENT_LEG_ERRORS"]
    assert (
        f"failed in 1 of 2 cases, first {text_of(1)} with GATEWAY_BUSY" in summary["comparability_reasons"][0]["detail"]
    )


def test_an_error_in_the_candidate_leg_is_comparable_and_over_the_limit():
    summary = compared([RIGHT, RIGHT], [RIGHT, failed(1)]).summary
    assert summary["comparable"]
    assert "CANDIDATE_ERRORS" in codes(summary["reasons"])


def test_a_missing_case_is_told_by_its_leg():
    summary = compared([RIGHT, None, None], [None, RIGHT, RIGHT]).summary
    assert codes(summary["comparability_reasons"]) == ["CASES_MISSING", "CASES_MISSING"]
    details = [reason["detail"] for reason in summary["comparability_reasons"]]
    assert details == [
        f"The current leg has no result for 2 of 3 cases, first {text_of(1)}.",
        f"The candidate leg has no result for 1 of 3 cases, first {text_of(0)}.",
    ]


def test_results_of_another_suite_are_not_comparable_and_count_nowhere():
    summary = compared([RIGHT, outcome(77, RIGHT)], [RIGHT, RIGHT]).summary
    assert codes(summary["comparability_reasons"]) == ["CASES_MISSING", "CASES_OF_ANOTHER_SUITE"]
    assert summary["metric_deltas"]["hit_rate"]["current"] == 0.5


def test_no_retrieval_at_all_is_worth_nothing_and_not_comparable():
    summary = compared([None] * 3, [None] * 3).summary
    assert (summary["eligibility"], summary["legs"]["current"]["error_count"]) == ("ineligible", 3)
    assert {delta["current"] for name, delta in summary["metric_deltas"].items() if name != "error_rate"} == {0.0}


def test_empty_rankings_everywhere_are_comparable_and_worth_nothing():
    summary = compared([NOTHING] * 3, [NOTHING] * 3).summary
    assert (summary["comparable"], summary["metric_deltas"]["ndcg"]["current"]) == (True, 0.0)


def test_critical_regressions_are_listed_in_the_suite_s_order():
    current = [RIGHT] * 6
    candidate = [RIGHT, failed(1), WRONG, None, NOTHING, WRONG]
    summary = compared(current, candidate, critical=(4, 3, 2, 1, 0)).summary
    assert summary["critical_regressions"] == [text_of(number) for number in (1, 2, 3, 4)]
    assert (summary["critical_regression_count"], summary["critical_case_count"]) == (4, 5)
    assert "CRITICAL_REGRESSION" in codes(summary["reasons"])


def test_a_critical_case_that_the_current_leg_fails_too_is_no_regression():
    assert compared([WRONG, failed(1)], [WRONG, WRONG], critical=(0, 1)).summary["critical_regression_count"] == 0


def test_a_result_beyond_k_is_no_pass():
    summary = compared([RIGHT], [SECOND], critical=(0,), settings={"top_k": 1}).summary
    assert summary["critical_regressions"] == [text_of(0)]


def turned(answers: list[Any]) -> list[Any]:
    return [failed(number) if answer == "failed" else answer for number, answer in enumerate(answers)]


@given(st.lists(st.tuples(ANSWERS, ANSWERS), min_size=1, max_size=12))
@settings(max_examples=40)
def test_exchanged_legs_turn_every_delta_round(pairs):
    current, candidate = ([pair[side] for pair in pairs] for side in (0, 1))
    current, candidate = turned(current), turned(candidate)
    there, back = (
        compared(*legs, critical=(0, 1)).summary["metric_deltas"]
        for legs in ((current, candidate), (candidate, current))
    )
    for name, delta in there.items():
        assert (delta["current"], delta["wins"]) == (back[name]["candidate"], back[name]["losses"])
        assert delta["interval"] == [-bound + 0.0 for bound in reversed(back[name]["interval"])]
        assert delta["p_value"] == back[name]["p_value"]


@given(st.lists(ANSWERS, min_size=1, max_size=12), st.integers(0, 11))
@settings(max_examples=40)
def test_silence_never_raises_a_mean(answers, place):
    place %= len(answers)
    silent = [*answers[:place], None, *answers[place + 1 :]]
    before = compared([RIGHT] * len(answers), turned(answers)).summary["metric_deltas"]
    after = compared([RIGHT] * len(answers), turned(silent)).summary["metric_deltas"]
    assert after["error_rate"]["candidate"] >= before["error_rate"]["candidate"]
    del before["error_rate"]
    assert all(after[name]["candidate"] <= delta["candidate"] for name, delta in before.items())


def test_a_capability_that_has_nothing_to_do_with_retrieval_is_evaluated_alike():
    sure, unsure, wrong = (
        {"option": option, "probability": p} for option, p in (("right", 1.0), ("right", 0.5), ("x", 1.0))
    )
    legs = both(leg([unsure] * 30), leg([sure] * 29 + [wrong]))
    suite = cases(30, critical=(29,))
    summary = evaluate(Decisions(), suite, legs, settings={}, rule=Rule(), seed=SEED).summary
    assert list(summary["metric_deltas"]) == ["brier", "accuracy", "error_rate"]
    brier = summary["metric_deltas"]["brier"]
    assert (brier["current"], brier["wins"], brier["losses"]) == (0.25, 29, 1)
    assert (summary["metrics_version"], summary["primary_metric"]) == ("decide-1", "brier")
    assert summary["critical_regressions"] == [text_of(29)]


def test_a_primary_metric_that_is_better_lower_is_judged_so():
    sure, unsure = ({"option": "right", "probability": p} for p in (1.0, 0.5))
    better, worse = leg([sure] * 30), leg([unsure] * 30)
    verdicts = [
        evaluate(Decisions(), cases(30), legs, settings={}, rule=Rule(), seed=SEED).summary
        for legs in (both(worse, better), both(better, worse))
    ]
    assert [one["eligibility"] for one in verdicts] == ["eligible", "ineligible"]
    assert "The candidate's gain in Brier score is -0.2500" in verdicts[1]["reasons"][0]["detail"]
