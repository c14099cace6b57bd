"""Who may do what with a comparison, and in which order that is found out."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING

import pytest
from sqlalchemy import update
from tests.api.asgi import exchange
from tests.comparing import PATH, make_stage
from tests.problems import refused

from steelyard.hub.db.tables import service_clients

if TYPE_CHECKING:
    from tests.comparing import Stage
    from tests.hub_api import Caller

NOWHERE = "00000000-0000-4000-8000-000000000000"
CONSUMER_CALLS = ("claim", "progress", "result", "finish")


@pytest.fixture
def viewer(stage: Stage) -> Caller:
    return stage.asked.caller("viewer")


def second_client(stage: Stage) -> Caller:
    """Return another client of the same project and binding."""
    binding = {"project_binding_id": stage.ids["project_binding_id"]}
    client = stage.operator.make("/service-clients", **binding, slug="second", name="Second")
    issued = stage.operator.make(f"/service-clients/{client['id']}/credentials", name="c")
    return stage.asked.holder(issued["secret"])


def calls(stage: Stage, comparison: object) -> list[tuple[str, str, str]]:
    """Return every call on comparisons as method, path and for whom it is."""
    one = f"/api/v1{PATH}/{comparison}"
    return [
        ("POST", f"/api/v1{PATH}", "operator"),
        ("POST", f"{one}/cancel", "operator"),
        ("GET", f"/api/v1{PATH}", "viewer"),
        ("GET", one, "viewer"),
        ("GET", f"{one}/cases", "viewer"),
        ("GET", f"/api/v1{PATH}/assigned", "client"),
        *(("POST", f"{one}/{call}", "client") for call in CONSUMER_CALLS),
    ]


def test_without_a_live_credential_every_call_is_a_401(stage):
    comparison, _ = stage.claimed()
    operator, client_id = stage.operator, stage.ids["consumer_client_id"]
    revoked = operator.post(f"/service-clients/{client_id}/revoke", expected_version=1)
    assert revoked.status_code == 200
    for headers in ({}, {"Authorization": "Bearer steelyard_client_nobody"}, stage.consumer.headers):
        for method, path, _ in calls(stage, comparison["id"]):
            refused(stage.asked.ask(method, path, headers=headers, content=b"{"), 401, "UNAUTHORIZED")
    assert stage.read(comparison)["status"] == "running"


def test_each_call_is_for_its_own_role_and_a_403_for_every_other_whatever_is_sent(stage, viewer):
    comparison = stage.create()
    callers = {"operator": stage.operator, "viewer": viewer, "client": stage.consumer}
    for known in (comparison["id"], NOWHERE):
        for method, path, role in calls(stage, known):
            for name, caller in callers.items():
                if name == role or (role, name) == ("viewer", "operator"):
                    continue
                for body in (b"", b"{", b"{}"):
                    answer = stage.asked.ask(method, path, headers=caller.headers, content=body)
                    refused(answer, 403, "FORBIDDEN")
    assert stage.read(comparison) == comparison


def test_an_operator_may_read_what_a_viewer_may(stage, viewer):
    comparison = stage.create()
    for caller in (stage.operator, viewer):
        assert caller.get(f"{PATH}/{comparison['id']}").json() == comparison
        assert caller.get(PATH).json()["items"] == [comparison]
        assert caller.get(f"{PATH}/{comparison['id']}/cases").json()["items"][0]["current"] is None


def test_another_client_of_the_same_binding_learns_nothing_and_changes_nothing(stage):
    other = second_client(stage)
    comparison, claim = stage.claimed()
    before = stage.read(comparison)
    bodies = {
        "claim": {},
        "progress": {
            "claim_token": claim["claim_token"], "current_completed_cases": 1, "candidate_completed_cases": 1
        },
        "result": stage.result(claim),
        "finish": {"claim_token": claim["claim_token"], "outcome": "failed"},
    }  # fmt: skip
    for call, body in bodies.items():
        for caller, known in ((other, comparison["id"]), (stage.consumer, NOWHERE)):
            told = refused(caller.post(f"{PATH}/{known}/{call}", **body), 404, "NOT_FOUND")
            assert told["detail"] == "No comparison has this id"
        for content in (b"", b"{", b"[]"):
            refused(other.send(f"{PATH}/{comparison['id']}/{call}", content), 404, "NOT_FOUND")
    assert other.get(f"{PATH}/assigned").json() == {"items": [], "limit": 50, "offset": 0, "has_more": False}
    assert stage.read(comparison) == before


def test_a_client_of_another_project_learns_nothing(stage):
    other = make_stage(stage.asked, slug="other")
    mine, theirs = stage.create(), other.create()
    for call in CONSUMER_CALLS:
        refused(stage.call(theirs, call), 404, "NOT_FOUND")
        refused(other.call(mine, call), 404, "NOT_FOUND")
    assert stage.consumer.get(f"{PATH}/assigned").json()["items"] == [mine]
    assert other.consumer.get(f"{PATH}/assigned").json()["items"] == [theirs]


def test_a_client_without_the_capability_is_a_403_at_every_call_and_gets_on_once_it_has_it_again(stage):
    comparison, claim = stage.claimed()
    client = service_clients.c.id == uuid.UUID(stage.ids["consumer_client_id"])

    def authorise(capabilities: list[str]) -> None:
        with stage.database.write() as connection:
            connection.execute(update(service_clients).where(client).values(capabilities=capabilities))

    for capabilities in ([], ["rag.reranking@1"]):
        authorise(capabilities)
        refused(stage.consumer.get(f"{PATH}/assigned"), 403, "FORBIDDEN")
        for known in (comparison["id"], NOWHERE):
            for call in CONSUMER_CALLS:
                refused(stage.consumer.send(f"{PATH}/{known}/{call}", b"{"), 403, "FORBIDDEN")
    authorise(["rag.embedding@1"])
    beat = {"claim_token": claim["claim_token"], "current_completed_cases": 1, "candidate_completed_cases": 0}
    assert stage.call(comparison, "progress", **beat).status_code == 200


def test_nothing_of_a_body_is_read_before_a_caller_may_call_and_a_comparison_is_known(stage, viewer):
    """401, 403, 404, 422: each hides what comes after it."""
    comparison = stage.create()
    other = second_client(stage)
    path = f"/api/v1{PATH}/{comparison['id']}/progress"
    for secret, status in ((None, 401), (viewer.secret, 403), (other.secret, 404)):
        headers = [(b"authorization", f"Bearer {secret}".encode())] if secret else []
        seen = exchange(stage.asked.hub.app, path, headers=headers, chunks=[b"{", b"no end"], ends=False)
        assert (seen.status, seen.read_before_answer) == (status, 0)


def test_paths_are_exact_and_nothing_redirects(stage):
    comparison = stage.create()
    one = f"{PATH}/{comparison['id']}"
    for caller in (stage.operator, stage.consumer):
        for path in (f"{PATH}/", f"{one}/", f"{one}/cases/", f"{PATH}/assigned/", f"{one}//cases", f"{PATH}/{one}"):
            refused(caller.get(path), 404, "NOT_FOUND")
        for path in (f"{PATH}/", f"{one}/cancel/", f"{one}/claim/", f"{one}/nothing"):
            refused(caller.send(path, b"{}"), 404, "NOT_FOUND")
    for text in ("1", "abc", "%00", "\N{DIGIT ONE}" * 36, f"{comparison['id']}0", f"urn:uuid:{comparison['id']}"):
        refused(stage.operator.get(f"{PATH}/{text}"), 404, "NOT_FOUND")
        refused(stage.consumer.send(f"{PATH}/{text}/claim", b""), 404, "NOT_FOUND")
    assert stage.read(comparison) == comparison


def test_a_wrong_method_is_a_405_with_those_that_are_right(stage):
    one = f"{PATH}/{NOWHERE}"
    for method, path, allowed in (
        ("DELETE", PATH, "GET, POST"), ("PUT", one, "GET"), ("PATCH", one, "GET"), ("GET", f"{one}/claim", "POST"),
        ("POST", f"{PATH}/assigned", "GET"), ("GET", f"{one}/cancel", "POST"), ("POST", f"{one}/cases", "GET"),
    ):  # fmt: skip
        answer = stage.asked.ask(method, f"/api/v1{path}", headers=stage.operator.headers)
        refused(answer, 405, "METHOD_NOT_ALLOWED")
        assert answer.headers["Allow"] == allowed, path


def test_who_changed_what_is_in_the_trail_with_the_request(stage):
    comparison, claim = stage.claimed()
    beat = {"claim_token": claim["claim_token"], "current_completed_cases": 1, "candidate_completed_cases": 0}
    stage.call(comparison, "progress", **beat)
    ended = stage.call(comparison, "finish", claim_token=claim["claim_token"], outcome="failed")
    events = stage.operator.get("/audit-events", project_id=stage.ids["project_id"], limit=3).json()["items"]
    assert [(event["action"], event["actor_role"]) for event in events] == [
        ("comparison.fail", "client"), ("comparison.claim", "client"), ("comparison.create", "operator"),
    ]  # fmt: skip
    assert events[0]["request_id"] == ended.headers["x-request-id"]
    assert {event["subject_id"] for event in events} == {comparison["id"]}
