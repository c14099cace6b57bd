"""History and detail: pages newest first, what they show of a comparison, and what they never do."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, Any

import pytest
from sqlalchemy import select
from tests.comparing import PATH, make_stage
from tests.problems import refused

from steelyard.hub.db import tables

if TYPE_CHECKING:
    from tests.comparing import Stage

NOWHERE = "00000000-0000-4000-8000-000000000000"
BAD_PAGES = (
    "limit=0", "limit=101", "limit=-1", "limit=1.5", "limit=", "limit=canary-limit", "limit=%00", "limit=1e3",
    "offset=-1", "offset=10001", "offset=x", "offset=1e3", "offset=" + "9" * 5000, "limit=1&limit=x",
    "limit=\N{ARABIC-INDIC DIGIT ONE}",
)  # fmt: skip


def cancelled(stage: Stage) -> Any:
    comparison = stage.create()
    return stage.operator.post(f"{PATH}/{comparison['id']}/cancel", expected_version=1).json()


def test_history_is_newest_first_page_by_page(stage):
    made = [cancelled(stage) for _ in range(5)][::-1]
    assert stage.operator.get(PATH).json() == {"items": made, "limit": 50, "offset": 0, "has_more": False}
    for offset in range(6):
        page = stage.operator.get(PATH, limit=2, offset=offset).json()
        assert page["items"] == made[offset : offset + 2]
        assert page["has_more"] == (offset < 3)
    assert stage.operator.get(PATH, limit=100, offset=10_000).json()["items"] == []
    assert stage.operator.get(PATH, limit=5).json()["has_more"] is False


def test_history_of_one_binding_is_its_own(stage):
    other = make_stage(stage.asked, slug="other")
    mine, theirs = cancelled(stage), cancelled(other)
    assert stage.operator.get(PATH).json()["items"] == [theirs, mine]
    for one, comparison in ((stage, mine), (other, theirs)):
        found = stage.operator.get(PATH, project_binding_id=one.ids["project_binding_id"]).json()["items"]
        assert found == [comparison]
    assert stage.operator.get(PATH, project_binding_id=NOWHERE).json()["items"] == []


def test_out_of_range_and_unknown_is_a_422(stage):
    comparison = cancelled(stage)
    more = ("status=failed", "canary-canary=1", "project_id=" + NOWHERE, "cursor=canary-canary")
    filters = ("project_binding_id=canary-canary", "project_binding_id=", "project_binding_id=1")
    for path, queries in (
        (PATH, (*BAD_PAGES, *more, *filters)),
        (f"{PATH}/{comparison['id']}/cases", BAD_PAGES + more),
    ):
        for query in queries:
            answer = stage.asked.ask("GET", f"/api/v1{path}?{query}", headers=stage.operator.headers)
            refused(answer, 422, "INVALID_REQUEST")


def test_nothing_has_the_id_of_another_thing(stage):
    stage.create()
    for known in (NOWHERE, *stage.ids.values()):
        for path in (f"{PATH}/{known}", f"{PATH}/{known}/cases"):
            refused(stage.operator.get(path), 404, "NOT_FOUND")
        refused(stage.operator.post(f"{PATH}/{known}/cancel", expected_version=1), 404, "NOT_FOUND")


def test_an_id_is_found_however_it_is_spelled(stage):
    comparison = stage.create()
    for spelling in (comparison["id"].upper(), comparison["id"].replace("-", "")):
        assert stage.operator.get(f"{PATH}/{spelling}").json() == comparison


def test_cases_have_nothing_of_the_legs_before_there_is_a_result_and_everything_after(stage):
    comparison, claim = stage.claimed()
    path = f"{PATH}/{comparison['id']}/cases"
    for case, shown in zip(stage.cases, stage.operator.get(path).json()["items"], strict=True):
        assert shown == {
            **{name: case[name] for name in ("case_id", "query", "critical", "labels")},
            "current": None,
            "candidate": None,
        }
    result = stage.result(claim)
    stage.call(comparison, "result", **result)
    page = stage.operator.get(path, limit=2, offset=1).json()
    assert [shown["case_id"] for shown in page["items"]] == [case["case_id"] for case in stage.cases[1:]]
    assert page["has_more"] is False
    for shown in page["items"]:
        for leg in ("current", "candidate"):
            assert shown[leg]["gateway_request_id"] == result[f"{leg}_gateway_requests"][shown["case_id"]]
            assert shown[leg]["gateway_latency_ms"] == 12.5
            assert shown[leg]["metrics"]["ndcg"] == 1.0
            assert [found["document_id"] for found in shown[leg]["ranked_results"]] == [None, None]


@pytest.mark.parametrize("end", ["completed", "failed", "cancelled", "interrupted"])
def test_history_shows_every_end_and_promotes_nothing(stage, end):
    comparison, claim = stage.claimed()
    if end == "completed":
        stage.call(comparison, "result", **stage.result(claim))
    elif end == "failed":
        stage.call(comparison, "finish", claim_token=claim["claim_token"], outcome="failed", error_code="OOM")
    elif end == "cancelled":
        stage.operator.post(f"{PATH}/{comparison['id']}/cancel", expected_version=2)
        stage.call(comparison, "finish", claim_token=claim["claim_token"], outcome="cancelled")
    else:
        stage.operator.post(f"/routes/{stage.ids['candidate_route_id']}/deactivate", expected_version=1)
        stage.call(comparison, "result", **stage.result(claim))
    [shown] = stage.operator.get(PATH).json()["items"]
    assert shown == stage.read(comparison)
    assert (shown["status"], shown["production_promotion_performed"]) == (end, False)
    assert shown["ended_at"] > shown["claimed_at"]
    assert (shown["evaluation_summary"] is not None) == (end == "completed")
    assert claim["claim_token"] not in stage.operator.get(PATH).text
    binding = stage.operator.get(f"/project-bindings/{stage.ids['project_binding_id']}").json()
    assert binding["current_deployment_id"] == stage.ids["current_deployment_id"]
    candidate = stage.operator.get(f"/deployments/{stage.ids['candidate_deployment_id']}").json()
    assert candidate["stage"] == "nonproduction"


def test_what_was_pinned_and_published_stays_when_everything_else_goes_on(stage):
    comparison, claim = stage.claimed()
    done = stage.call(comparison, "result", **stage.result(claim)).json()
    stage.operator.post(f"/routes/{stage.ids['candidate_route_id']}/deactivate", expected_version=1)
    stage.operator.post(f"/deployments/{stage.ids['candidate_deployment_id']}/retire", expected_version=1)
    stage.operator.post(f"/service-clients/{stage.ids['consumer_client_id']}/revoke", expected_version=1)
    stage.operator.post(f"/project-bindings/{stage.ids['project_binding_id']}/deactivate", expected_version=2)
    assert stage.read(comparison) == done


def test_no_answer_has_a_row_id(stage):
    comparison, claim = stage.claimed()
    stage.call(comparison, "result", **stage.result(claim))
    with stage.database.read() as connection:
        row = connection.execute(
            select(tables.comparisons).where(tables.comparisons.c.id == uuid.UUID(comparison["id"]))
        ).one()
    shown = stage.read(comparison)
    assert "number" not in shown
    assert not {"claim_token_sha256", "closing_sha256", "input_sha256", "cancelled_version"} & set(shown)
    for kept in (row.claim_token_sha256, row.closing_sha256, row.input_sha256):
        assert kept not in stage.operator.get(f"{PATH}/{comparison['id']}").text
