"""Evidence: every case that was reported as answered names a real, completed request of the gateway's, of its own."""

from __future__ import annotations

import uuid
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest
from sqlalchemy import func, select, update
from tests.comparing import PATH, make_stage
from tests.problems import refused

from steelyard.hall.canonical import sha256_of_json
from steelyard.hub.db import tables
from steelyard.hub.gateway import store as log
from steelyard.hub.gateway.domain.entries import Ended

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.comparing import Stage

LEGS = ("current", "candidate")
PUBLISHED = (
    tables.evaluation_runs, tables.evaluation_results, tables.evaluation_evidence, tables.evaluation_summaries,
)  # fmt: skip


def published(stage: Stage) -> list[int]:
    """Return how many rows the tables of published results have."""
    with stage.database.read() as connection:
        return [connection.scalar(select(func.count()).select_from(table)) or 0 for table in PUBLISHED]


def request_of(stage: Stage, leg: str, number: int = 0, **fields: Any) -> str:
    """Log a completed request for one case, with the last fields instead, and return its public id."""
    [request_id] = stage.embed(leg, [stage.cases[number]["query"]], **fields)
    return request_id


def with_request(stage: Stage, result: dict[str, Any], leg: str, request_id: str, number: int = 0) -> dict[str, Any]:
    """Return the result with another request as evidence for one case of a leg."""
    name = f"{leg}_gateway_requests"
    return {**result, name: {**result[name], stage.cases[number]["case_id"]: request_id}}


def place(stage: Stage, leg: str, number: int = 0) -> str:
    return f"body.{leg}_gateway_requests.{stage.cases[number]['case_id']}"


def alter(stage: Stage, request_id: str, **values: Any) -> None:
    """Change a row of the log, as if its request had gone otherwise."""
    with stage.database.write() as connection:
        query = update(tables.gateway_requests).where(tables.gateway_requests.c.request_id == request_id)
        connection.execute(query.values(**values))


@pytest.fixture
def case_ids(stage: Stage) -> frozenset[str]:
    """Give what a refusal of evidence may name: the suite's own cases."""
    return frozenset(case["case_id"] for case in stage.cases)


@pytest.fixture
def claimed(stage: Stage, case_ids: frozenset[str]) -> Iterator[Any]:
    """Give a claimed comparison, its result, and a function that expects a refusal of it at one place."""
    comparison, claim = stage.claimed()
    good = stage.result(claim)

    def refuses(code: str, leg: str, request_id: str, *, number: int = 0) -> None:
        answer = stage.call(comparison, "result", **with_request(stage, good, leg, request_id, number))
        problem = refused(answer, 422, code, spared=case_ids)
        assert [error["where"] for error in problem["errors"]] == [place(stage, leg, number)]

    yield comparison, claim, good, refuses
    # Whatever was refused has changed nothing, and the claim still holds.
    assert published(stage) == [0, 0, 0, 0]
    assert stage.call(comparison, "result", **good).json()["status"] == "completed"
    assert published(stage) == [2, 6, 6, 1]


@pytest.mark.parametrize("leg", LEGS)
def test_a_request_must_be_the_clients_own_and_there(stage, claimed, leg):
    _, _, _, refuses = claimed
    refuses("EVIDENCE_UNKNOWN", leg, uuid.uuid4().hex)
    refuses("EVIDENCE_UNKNOWN", leg, "0" * 32)
    other = make_stage(stage.asked, slug="other")
    [foreign] = other.embed(leg, [stage.cases[0]["query"]])
    refuses("EVIDENCE_UNKNOWN", leg, foreign)
    second = stage.operator.make(
        "/service-clients", project_binding_id=stage.ids["project_binding_id"], slug="second", name="Second"
    )
    refuses("EVIDENCE_UNKNOWN", leg, request_of(stage, leg, service_client_id=uuid.UUID(second["id"])))


@pytest.mark.parametrize("leg", LEGS)
def test_a_request_must_have_gone_through_the_route_of_its_leg_to_its_deployment(stage, claimed, leg):
    _, _, _, refuses = claimed
    other_leg = {"current": "candidate", "candidate": "current"}[leg]
    refuses("EVIDENCE_WRONG_ROUTE", leg, request_of(stage, other_leg))
    body = {
        "project_binding_id": stage.ids["project_binding_id"],
        "deployment_id": stage.ids["candidate_deployment_id"],
    }
    other_route = stage.operator.make("/routes", slug="another", **body)
    refuses("EVIDENCE_WRONG_ROUTE", leg, request_of(stage, leg, route_id=uuid.UUID(other_route["id"])))
    deployment_id = uuid.UUID(stage.ids[f"{other_leg}_deployment_id"])
    refuses("EVIDENCE_WRONG_ROUTE", leg, request_of(stage, leg, deployment_id=deployment_id))
    refuses("EVIDENCE_WRONG_ROUTE", leg, request_of(stage, leg, capability="rag.reranking@1"))


@pytest.mark.parametrize("leg", LEGS)
def test_a_request_must_have_been_completed(stage, claimed, leg):
    _, _, _, refuses = claimed
    entry = stage.started(leg, stage.cases[0]["query"])
    log.commit(stage.database, [entry])
    refuses("EVIDENCE_NOT_COMPLETED", leg, entry.request_id)
    log.commit(stage.database, [Ended(entry.request_id, latency_ms=3.0, error_code="upstream_failed")])
    refuses("EVIDENCE_NOT_COMPLETED", leg, entry.request_id)


QUERIES = {
    "a space after it": "{} ",
    "a space before it": " {}",
    "a prefix": "query: {}",
    "another's query": "Question 1?",
    "nothing": "",
    "another case": "question 0?",
    "a full-width mark": "Question 0\uff1f",
}


@pytest.mark.parametrize("leg", LEGS)
def test_a_request_must_have_had_the_query_alone_as_it_is(stage, claimed, leg):
    _, _, _, refuses = claimed
    query = stage.cases[0]["query"]
    for text in QUERIES.values():
        [request_id] = stage.embed(leg, [text.format(query)])
        refuses("EVIDENCE_WRONG_INPUT", leg, request_id)
    refuses("EVIDENCE_WRONG_INPUT", leg, request_of(stage, leg, input_type="document"))
    refuses("EVIDENCE_WRONG_INPUT", leg, request_of(stage, leg, input_sha256=sha256_of_json(query)))
    both = sha256_of_json([query, stage.cases[1]["query"]])
    refuses("EVIDENCE_NOT_SINGLE", leg, request_of(stage, leg, input_sha256=both, input_count=2))
    twice = sha256_of_json([query, query])
    refuses("EVIDENCE_NOT_SINGLE", leg, request_of(stage, leg, input_sha256=twice, input_count=2))
    refuses("EVIDENCE_NOT_SINGLE", leg, request_of(stage, leg, input_count=2))


@pytest.mark.parametrize("leg", LEGS)
def test_a_request_from_before_the_claim_is_none_of_its_evidence(stage, case_ids, leg):
    comparison = stage.create()
    early = request_of(stage, leg)
    claim = stage.claim(comparison)
    result = stage.result(claim)
    answer = stage.call(comparison, "result", **with_request(stage, result, leg, early))
    refused(answer, 422, "EVIDENCE_OUTSIDE_CLAIM", spared=case_ids)
    assert stage.read(comparison)["status"] == "running"


@pytest.mark.parametrize("leg", LEGS)
def test_a_request_lies_in_the_claim_to_the_microsecond(stage, claimed, leg):
    _, claim, _, refuses = claimed
    claimed_at, deadline = (datetime.fromisoformat(claim["comparison"][n]) for n in ("claimed_at", "deadline_at"))
    moment = timedelta(microseconds=1)
    soon = claimed_at + timedelta(minutes=30)  # Which is not yet.
    for times in (
        {"started_at": claimed_at - moment},
        {"started_at": claimed_at - timedelta(days=1), "completed_at": claimed_at},
        {"completed_at": deadline + moment},
        {"completed_at": deadline},
        {"completed_at": soon},
    ):
        request_id = request_of(stage, leg)
        alter(stage, request_id, **times)
        refuses("EVIDENCE_OUTSIDE_CLAIM", leg, request_id)


def test_a_request_that_began_with_the_claim_and_ended_at_once_counts(stage):
    comparison, claim = stage.claimed()
    claimed_at = datetime.fromisoformat(claim["comparison"]["claimed_at"])
    result = stage.result(claim)
    for request_id in result["current_gateway_requests"].values():
        alter(stage, request_id, started_at=claimed_at, completed_at=claimed_at)
    assert stage.call(comparison, "result", **result).json()["status"] == "completed"


def test_a_request_stands_for_one_case_of_one_leg(stage, claimed, case_ids):
    comparison, _, good, _ = claimed
    first, second = (case["case_id"] for case in stage.cases[:2])
    for leg in LEGS:
        twice = with_request(stage, good, leg, good[f"{leg}_gateway_requests"][first], number=1)
        problem = refused(stage.call(comparison, "result", **twice), 422, "EVIDENCE_REUSED", spared=case_ids)
        assert [error["where"] for error in problem["errors"]] == [place(stage, leg, 0), place(stage, leg, 1)]
    across = with_request(stage, good, "candidate", good["current_gateway_requests"][first])
    problem = refused(stage.call(comparison, "result", **across), 422, "EVIDENCE_REUSED", spared=case_ids)
    assert [error["where"] for error in problem["errors"]] == [place(stage, "current"), place(stage, "candidate")]
    swapped = {
        **good,
        "current_gateway_requests": {
            **good["current_gateway_requests"],
            first: good["current_gateway_requests"][second],
            second: good["current_gateway_requests"][first],
        },
    }
    refused(stage.call(comparison, "result", **swapped), 422, "EVIDENCE_WRONG_INPUT", spared=case_ids)
    legs = {
        "current_gateway_requests": good["candidate_gateway_requests"],
        "candidate_gateway_requests": good["current_gateway_requests"],
    }
    refused(stage.call(comparison, "result", **{**good, **legs}), 422, "EVIDENCE_WRONG_ROUTE", spared=case_ids)


def test_a_request_is_evidence_once_ever(stage, case_ids):
    first, claim = stage.claimed()
    used = stage.result(claim)
    assert stage.call(first, "result", **used).status_code == 200
    before = published(stage)
    second, claim = stage.claimed()
    again = {**used, "claim_token": claim["claim_token"]}
    assert stage.read(first)["pins_digest"] == claim["comparison"]["pins_digest"]
    refused(stage.call(second, "result", **again), 422, "EVIDENCE_REUSED", spared=case_ids)
    fresh = stage.result(claim)
    for leg in LEGS:
        old = used[f"{leg}_gateway_requests"][stage.cases[2]["case_id"]]
        answer = stage.call(second, "result", **with_request(stage, fresh, leg, old, number=2))
        problem = refused(answer, 422, "EVIDENCE_REUSED", spared=case_ids)
        assert [error["where"] for error in problem["errors"]] == [place(stage, leg, 2)]
    assert published(stage) == before
    assert stage.call(second, "result", **fresh).json()["status"] == "completed"


def test_evidence_of_a_comparison_that_failed_is_free(stage):
    """What was never published was never evidence; but it lies before the next claim."""
    first, claim = stage.claimed()
    used = stage.result(claim)
    stage.call(first, "finish", claim_token=claim["claim_token"], outcome="failed")
    second, claim = stage.claimed()
    answer = stage.call(second, "result", **{**used, "claim_token": claim["claim_token"]})
    assert answer.json()["code"] == "EVIDENCE_OUTSIDE_CLAIM"


def test_an_answered_case_needs_a_request_and_a_failed_one_may_have_one(stage, claimed, case_ids):
    comparison, _, good, _ = claimed
    case_id = stage.cases[1]["case_id"]
    for leg in LEGS:
        name = f"{leg}_gateway_requests"
        without = {**good, name: {key: value for key, value in good[name].items() if key != case_id}}
        problem = refused(stage.call(comparison, "result", **without), 422, "EVIDENCE_MISSING", spared=case_ids)
        assert [error["where"] for error in problem["errors"]] == [place(stage, leg, 1)]
        empty = {**without, leg: stage.leg(case_1={"ranked_results": []})}
        refused(stage.call(comparison, "result", **empty), 422, "EVIDENCE_MISSING", spared=case_ids)
        none = {**good, name: {}}
        problem = refused(stage.call(comparison, "result", **none), 422, "EVIDENCE_MISSING", spared=case_ids)
        assert len(problem["errors"]) == 3


def test_the_evidence_of_a_failed_case_follows_the_same_rules(stage, claimed):
    comparison, _, good, _ = claimed
    failed = {"case_0": {"ranked_results": [], "error_code": "TIMEOUT"}}
    wrong = {
        "EVIDENCE_UNKNOWN": uuid.uuid4().hex,
        "EVIDENCE_WRONG_ROUTE": request_of(stage, "candidate"),
        "EVIDENCE_WRONG_INPUT": request_of(stage, "current", input_type="document"),
    }
    for code, request_id in wrong.items():
        body = with_request(stage, {**good, "current": stage.leg(**failed)}, "current", request_id)
        assert stage.call(comparison, "result", **body).json()["code"] == code


@pytest.mark.parametrize("is_mapped", [False, True])
def test_a_failed_case_counts_as_nothing_with_evidence_and_without(stage, is_mapped):
    comparison, claim = stage.claimed()
    result = stage.result(claim, candidate=stage.leg(case_1={"ranked_results": [], "error_code": "TIMEOUT"}))
    if not is_mapped:
        del result["candidate_gateway_requests"][stage.cases[1]["case_id"]]
    done = stage.call(comparison, "result", **result).json()
    summary = done["evaluation_summary"]
    assert (done["status"], summary["metric_deltas"]["ndcg"]["candidate"]) == ("completed", pytest.approx(2 / 3))
    shown = stage.operator.get(f"{PATH}/{comparison['id']}/cases").json()["items"][1]["candidate"]
    assert (shown["error_code"], shown["ranked_results"]) == ("TIMEOUT", [])
    assert {name for name, value in shown["metrics"].items() if value} == {"error_rate"}
    assert (shown["gateway_request_id"] is not None) == is_mapped
    assert (shown["gateway_latency_ms"] == 12.5) == is_mapped


def test_an_empty_ranking_without_an_error_is_a_success_without_hits(stage):
    comparison, claim = stage.claimed()
    result = stage.result(claim, candidate=stage.leg(case_0={"ranked_results": []}, case_1={"ranked_results": []}))
    deltas = stage.call(comparison, "result", **result).json()["evaluation_summary"]["metric_deltas"]
    assert deltas["hit_rate"]["candidate"] == pytest.approx(1 / 3)
    assert deltas["error_rate"]["candidate"] == 0


def test_many_faults_are_told_by_kind_and_at_most_twenty(asked):
    stage = make_stage(asked, cases=60)
    comparison, claim = stage.claimed()
    result = stage.result(claim)
    case_ids = frozenset(case["case_id"] for case in stage.cases)
    strange = {case["case_id"]: uuid.uuid4().hex for case in stage.cases}
    answer = stage.call(comparison, "result", **{**result, "candidate_gateway_requests": strange})
    problem = refused(answer, 422, "EVIDENCE_UNKNOWN", spared=case_ids)
    assert [error["where"] for error in problem["errors"]] == [
        place(stage, "candidate", number) for number in range(20)
    ]
    assert "57 more" in problem["detail"]
    mixed = {**result, "current_gateway_requests": {}, "candidate_gateway_requests": strange}
    problem = refused(stage.call(comparison, "result", **mixed), 422, "EVIDENCE_MISSING", spared=case_ids)
    assert "; faults of other kinds: 60" in problem["detail"]
