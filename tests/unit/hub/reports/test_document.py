from __future__ import annotations

import copy
import json
from typing import Any

import pytest
from tests.unit.hub.reports.comparisons import case, cases, comparison, completed, metric, of_leg, outcome

from steelyard.hub.reports.formats import FORMATS
from steelyard.hub.reports.reading import report_of
from steelyard.hub.reports.words import CODES, STATUSES, VERDICTS


def every_format(data: dict[str, Any], its_cases: list[dict[str, Any]]) -> dict[str, str]:
    return {name: form(report_of(data, its_cases)) for name, form in FORMATS.items()}


def reversed_keys(value: Any) -> Any:
    """Return equal JSON with every object's members the other way round."""
    if isinstance(value, list):
        return [reversed_keys(item) for item in value]
    return {name: reversed_keys(value[name]) for name in reversed(value)} if isinstance(value, dict) else value


def test_equal_data_make_an_equal_report_byte_for_byte():
    assert every_format(completed(), cases()) == every_format(reversed_keys(completed()), reversed_keys(cases()))


def test_a_report_changes_nothing_of_what_it_is_made_of():
    data, its_cases = completed(), cases()
    before = copy.deepcopy((data, its_cases))
    every_format(data, its_cases)
    assert (data, its_cases) == before


@pytest.mark.parametrize("status", [status for status in STATUSES if status not in {"", "completed"}])
@pytest.mark.parametrize("code", [None, *filter(None, CODES), "CONSUMER_SHUTDOWN"])
def test_a_comparison_without_a_result_says_how_it_stands_and_what_its_code_means(status, code):
    for form, text in every_format(comparison(status, error_code=code), []).items():
        flat = " ".join(text.split())
        assert STATUSES[status] in flat or form in {"html", "markdown"}
        assert STATUSES[status].split(" ")[0] in flat
        if code:
            assert code in flat
            assert CODES.get(code, CODES[""])[:40] in flat.replace("&#39;", "'")
        assert "Nothing was promoted" in flat
        assert "No rankings were reported." in flat


@pytest.mark.parametrize("eligibility", [word for word in VERDICTS if word])
def test_each_verdict_is_told_with_its_meaning(eligibility):
    data = completed(eligibility=eligibility)
    assert VERDICTS[eligibility] in " ".join(FORMATS["text"](report_of(data, cases())).split())
    assert report_of(data, cases()).is_eligible == (eligibility == "eligible")


def test_a_state_and_a_verdict_of_a_newer_hub_are_told_as_they_are():
    assert "paused" in FORMATS["text"](report_of(comparison("paused"), []))
    assert "Perhaps." in FORMATS["text"](report_of(completed(eligibility="perhaps"), cases()))


def test_a_completed_comparison_without_a_summary_is_told_without_one():
    data = comparison("completed", consumer_revision_sha256="23" * 32)
    report = report_of(data, cases())
    assert (report.verdict, report.metrics, report.cases, report.legs) == (None, (), (), {})
    assert not report.is_eligible
    for text in every_format(data, cases()).values():
        assert "refund" not in text


def test_the_rankings_are_the_consumers_report_and_nothing_was_promoted():
    text = " ".join(FORMATS["text"](report_of(completed(), cases())).split())
    assert "The rankings are the consumer's report and not the hub's own measurement" in text
    assert f"the revision digest {'23' * 32} says which implementation reported them" in text
    assert "Nothing was promoted" in text


def test_latencies_that_nobody_knows_are_dashes_and_draw_nothing():
    legs = {"current": of_leg(0, 0, None), "candidate": {"error_count": 0, "unjudged_count": 0, "latency_ms": None}}
    silent = [
        case(number, "?", {"a": 1}, *(outcome("a", ndcg=1.0) | {"latency_ms": None, "gateway_latency_ms": None},) * 2)
        for number in range(4)
    ]
    told = every_format(completed(legs=legs), silent)
    assert "as the consumer reported it  –            –" in " ".join(told["text"].split("\n")) or "–" in told["text"]
    assert 'id="spread-title"' not in told["html"]


def test_bounds_and_numbers_that_nobody_knows_are_dashes():
    unknown = metric("nDCG@3", 0.5, 0.5, interval=None, one_sided=None, p_value=None, delta=None)
    report = report_of(completed(metric_deltas={"ndcg": unknown}), cases())
    row = next(line for line in FORMATS["text"](report).split("\n") if line.startswith("nDCG@3 *"))
    assert row.split() == ["nDCG@3", "*", "0.500", "0.500", "–", "–", "–", "1/1/2"]
    assert 'id="deltas-title"' not in FORMATS["html"](report)


def test_what_is_critical_comes_with_what_each_leg_gave():
    (regression,) = report_of(completed(), cases()).critical_regressions
    assert regression.query == "How do I get a refund?"
    assert (regression.current.first_relevant_rank, regression.candidate.first_relevant_rank) == (1, None)
    assert [result.grade for result in regression.current.results] == [3, None]
    assert regression.candidate.error_code == "GATEWAY_TIMEOUT"


def test_only_some_results_are_shown_and_json_has_all():
    many = cases()
    many[1]["candidate"] = outcome(*(f"chunk-{number}" for number in range(30)), ndcg=0.0)
    told = every_format(completed(), many)
    assert "chunk-4 (unjudged)" in told["text"]
    assert "chunk-5 (unjudged)" not in told["text"]
    assert "nothing relevant in 30 results" in " ".join(told["text"].split())
    assert len(json.loads(told["json"])["critical_regressions"][0]["candidate"]["results"]) == 30


def test_a_suite_without_regressions_says_so():
    data = completed(critical_regressions=[], critical_regression_count=0, eligibility="eligible", reasons=[])
    assert "None, of 2 critical cases." in FORMATS["text"](report_of(data, cases()))


def test_losses_and_gains_are_the_largest_five_and_ties_keep_the_suites_order():
    many = [
        case(number, f"Case {number}", {"a": 1}, outcome("a", ndcg=0.9), outcome("a", ndcg=0.9 - min(number, 6) / 10))
        for number in range(10)
    ]
    report = report_of(completed(critical_regressions=[]), many)
    assert [each.query for each in report.losses] == [f"Case {number}" for number in (6, 7, 8, 9, 5)]
    assert report.gains == ()
    assert "None." in FORMATS["text"](report)


def test_how_many_cases_it_would_take_and_why_legs_cannot_be_compared_are_told():
    data = completed(
        eligibility="inconclusive", cases_needed=64, comparable=False,
        comparability_reasons=[{"code": "CURRENT_LEG_ERRORS", "detail": "One failed."}],
    )  # fmt: skip
    text = FORMATS["text"](report_of(data, cases()))
    assert "It would take about 64 cases; there are 4." in text
    assert "Not comparable: CURRENT_LEG_ERRORS." in text


def test_another_capability_is_told_by_its_own_metrics():
    """Nothing here is known to the report: neither the metrics, nor that the one that decides is better lower."""
    pins = {
        leg: {"deployment": {"id": "1", "slug": leg}, "calibration": {"t": 1.5}} for leg in ("current", "candidate")
    }
    decided = [
        case(0, "Row 0", {"yes": 1}, decision(0.4), decision(0.7)),
        case(1, "Row 1", {"yes": 1}, decision(0.4), decision(0.2)),
        case(2, "Row 2", {"yes": 1}, decision(0.4), decision(1.0, error="NO_ANSWER")),
        case(3, "Row 3", {"yes": 1}, decision(0.4), decision(0.4)),
    ]
    data = completed(
        primary_metric="brier", critical_regressions=[decided[2]["case_id"]],
        metric_deltas={
            "accuracy": metric("Accuracy", 0.5, 0.25),
            "brier": metric("Brier score", 0.4, 0.575, higher_is_better=False),
        },
    ) | {"capability": "semantic.decision@1", "pins": {"suite": comparison()["pins"]["suite"], **pins}}  # fmt: skip
    report = report_of(data, decided)
    assert [each.title for each in report.metrics] == ["Brier score", "Accuracy"]
    assert [each.query for each in report.losses] == ["Row 2", "Row 0"]
    assert [each.query for each in report.gains] == ["Row 1"]
    told = every_format(data, decided)
    assert "Brier score * ↓" in told["text"]
    assert "calibration.t" in told["text"]
    assert "nDCG" not in "".join(told.values())


def decision(brier: float, error: str | None = None) -> dict[str, Any]:
    """Return what a leg of decisions gave: a form that the report does not know."""
    return {
        "answer": {"option": "yes"}, "latency_ms": 5.0, "error_code": error, "gateway_request_id": None,
        "gateway_latency_ms": None, "metrics": {"brier": brier, "accuracy": 1.0},
    }  # fmt: skip


def test_a_case_without_the_primary_metric_is_left_out_of_the_changes():
    some = cases()
    some[0]["current"]["metrics"] = {}
    some[3]["candidate"] = None
    report = report_of(completed(), some)
    assert [each.improvement is None for each in report.cases] == [True, False, False, True]
    assert FORMATS["html"](report)
