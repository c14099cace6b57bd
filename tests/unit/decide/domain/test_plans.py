from __future__ import annotations

import pytest
from tests.unit.decide.makers import fields

from steelyard.decide.domain.arithmetic import softmax
from steelyard.decide.domain.errors import InvalidRequest
from steelyard.decide.domain.plans import Rules, answers_of, plan_decide, plan_shared, rows_of

RULES = Rules(max_decisions=64, temperatures={"triage": 2.0})
TOO_MANY = "the request makes {} rows, more than the limit of {}"


def choices(count: int) -> list[dict[str, str]]:
    return [{"id": f"o{i}", "description": f"Option {i}"} for i in range(count)]


def shared_body(*decisions: dict, **changes: object) -> dict:
    own = [{k: v for k, v in fields(id=f"d{i}").items() if k != "state"} | d for i, d in enumerate(decisions)]
    return {"state": "S.", "decisions": own} | changes


def refusal(plan, body, rules=RULES) -> str:
    with pytest.raises(InvalidRequest) as caught:
        plan(body, rules=rules)
    return str(caught.value)


def limited(count: int) -> Rules:
    return Rules(max_decisions=count, temperatures={})


def scored(plan) -> list[dict]:
    """Give what a scorer would for every row: the first option shown wins by one."""
    results = []
    for row in rows_of(plan):
        logits = [1.0] + [0.0] * (len(row.options) - 1)
        results.append(
            {"id": row.id, "option_ids": row.option_ids, "option_logits": logits, "probabilities": softmax(logits)}
        )
    return results


def test_a_row_alone_is_a_plan_of_one_plain_decision():
    plan = plan_decide(fields(), rules=RULES)
    assert not plan.has_averaging
    assert plan.workload is None
    assert [row.id for row in rows_of(plan)] == ["r1"]


@pytest.mark.parametrize("orderings", [None, "none"])
def test_a_null_workload_and_null_orderings_are_absent(orderings):
    assert plan_decide(fields(workload=None, orderings=orderings), rules=RULES) == plan_decide(fields(), rules=RULES)


@pytest.mark.parametrize("plan", [plan_decide, plan_shared])
@pytest.mark.parametrize("body", [None, [], "x", 1, [fields()]])
def test_a_body_that_is_no_object_is_refused(plan, body):
    assert refusal(plan, body) == "The body must be a JSON object"


@pytest.mark.parametrize("decisions", [None, {}, "x", [], [{}] * 65])
def test_decisions_are_a_list_within_the_limit(decisions):
    assert refusal(plan_shared, {"state": "S", "decisions": decisions}) == (
        "decisions must be an array of 1 to 64 objects"
    )


def test_a_decision_that_is_no_object_is_named_by_its_place():
    body = shared_body({}, {})
    body["decisions"][1] = "d1"
    assert refusal(plan_shared, body) == "decisions[1] must be a JSON object"


def test_the_shared_state_replaces_a_decisions_own():
    plan = plan_shared(shared_body({"state": "own"}, {}), rules=RULES)
    assert [row.state for row in rows_of(plan)] == ["S.", "S."]


def test_a_decisions_own_state_is_no_shared_one():
    body = shared_body({"state": "own"})
    del body["state"]
    assert refusal(plan_shared, body) == "Row is missing fields: ['state']"


@pytest.mark.parametrize("state", ["", None, 0, {}, []])
def test_a_bad_shared_state_is_refused(state):
    assert refusal(plan_shared, shared_body({}, {}, state=state)) == (
        "state must be a nonempty string, object, or array"
    )


def test_the_first_bad_decision_is_reported():
    body = shared_body({"options": []}, {"id": ""})
    assert refusal(plan_shared, body) == "options must contain 2-16 entries"


def test_an_unknown_workload_or_method_is_refused():
    assert refusal(plan_decide, fields(workload="x")) == "Unknown workload; known workloads: triage"
    assert refusal(plan_decide, fields(orderings="x")) == 'orderings must be "none", "rotations" or "all"'
    assert refusal(plan_shared, shared_body({"orderings": 1})) == 'orderings must be "none", "rotations" or "all"'


def test_a_workload_and_averaging_exclude_each_other():
    text = 'workload and orderings exclude each other; leave one out, or set orderings to "none"'
    assert refusal(plan_decide, fields(workload="triage", orderings="all")) == text
    assert refusal(plan_shared, shared_body({}, {"orderings": "rotations"}, workload="triage")) == text
    assert plan_decide(fields(workload="triage", orderings="none"), rules=RULES).workload == "triage"


def test_expanded_rows_count_toward_the_limit():
    body = fields(options=choices(4), orderings="all")
    assert len(rows_of(plan_decide(body, rules=limited(24)))) == 24
    assert refusal(plan_decide, body, limited(23)) == TOO_MANY.format(24, 23)
    many = shared_body({"orderings": "rotations", "options": choices(16)}, {}, {"orderings": "all"})
    assert len(rows_of(plan_shared(many, rules=limited(19)))) == 19
    assert refusal(plan_shared, many, limited(18)) == TOO_MANY.format(19, 18)


def test_rows_are_counted_before_any_list_is_built(monkeypatch):
    def no_lists(_decision):
        raise AssertionError("a list was built before the count was checked")

    monkeypatch.setattr("steelyard.decide.domain.plans.expand", no_lists)
    body = shared_body(*[{"orderings": "all", "options": choices(4)}] * 64)
    assert refusal(plan_shared, body) == TOO_MANY.format(64 * 24, 64)


def test_rows_stand_in_request_order():
    plan = plan_shared(shared_body({"orderings": "rotations"}, {}, {"orderings": "all"}), rules=RULES)
    assert [row.id for row in rows_of(plan)] == ["d0#o0", "d0#o1", "d1", "d2#o0", "d2#o1"]


@pytest.mark.parametrize("other", [{"id": "d0#o1"}, {"id": "d0#o0", "orderings": "rotations"}])
def test_an_id_that_collides_with_an_expanded_one_is_refused(other):
    plan = plan_shared(shared_body({"orderings": "rotations"}, other), rules=RULES)
    with pytest.raises(InvalidRequest, match=f"^Decision ID '{other['id']}' collides with an ordering's; rename it$"):
        rows_of(plan)


def test_an_id_that_only_looks_expanded_passes():
    plan = plan_shared(shared_body({"id": "d#o0"}, {"id": "d#o2", "orderings": "rotations"}), rules=RULES)
    assert [row.id for row in rows_of(plan)] == ["d#o0", "d#o2#o0", "d#o2#o1"]


def test_every_decision_gets_its_answer_in_request_order():
    plan = plan_shared(shared_body({"orderings": "rotations"}, {}, {"orderings": "all"}), rules=RULES)
    results = scored(plan)
    answers = answers_of(plan, results, rules=RULES)
    assert [answer["id"] for answer in answers] == ["d0", "d1", "d2"]
    assert answers[0]["orderings"] == results[:2]
    assert answers[1] is results[2]
    assert answers[2]["orderings"] == results[3:]


def test_a_plain_decision_keeps_the_scorers_result_exactly():
    plan = plan_decide(fields(), rules=RULES)
    results = scored(plan)
    assert answers_of(plan, results, rules=RULES) == results
    assert "calibrated" not in results[0]


def test_a_workload_calibrates_every_answer_of_the_request():
    plan = plan_shared(shared_body({}, {}, workload="triage"), rules=RULES)
    answers = answers_of(plan, scored(plan), rules=RULES)
    for answer in answers:
        assert answer["calibrated"] == {
            "workload": "triage",
            "temperature": 2.0,
            "probabilities": softmax([1.0, 0.0], temperature=2.0),
        }
        assert answer["probabilities"] == softmax([1.0, 0.0])


@pytest.mark.parametrize("second", [{}, {"orderings": "rotations"}])
def test_two_decisions_with_one_id_are_refused_however_they_are_averaged(second):
    plan = plan_shared(shared_body({"id": "d", "orderings": "rotations"}, {"id": "d", **second}), rules=RULES)
    assert plan.decisions[0].row.id == plan.decisions[1].row.id == "d"
    with pytest.raises(InvalidRequest, match=r"^Decision IDs must be unique$"):
        rows_of(plan)
