"""What the designated client does: assignment, claim, progress and finish, each refused with the code that it has."""

from __future__ import annotations

import uuid
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest
from sqlalchemy import select, update
from tests.comparing import PATH, make_stage
from tests.hub_api import Asked
from tests.problems import refused
from tests.targets import CHANGES, move_pointer

from steelyard.hub.db import tables
from steelyard.hub.db.database import Database

if TYPE_CHECKING:
    from tests.comparing import Stage

WRONG_TOKENS = ("steelyard_claim_canary", "x", "steelyard_claim_" + "A" * 43, "é" * 20, "canary\x00token")


class Clock:
    """A clock that a test sets."""

    def __init__(self) -> None:
        self.now = datetime(2026, 12, 1, 9, tzinfo=UTC)

    def __call__(self) -> datetime:
        return self.now

    def pass_by(self, **span: float) -> None:
        self.now += timedelta(**span)


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def timed(sqlite_databases, clock):
    """Give a stage whose clock is the test's: only beside SQLite does the hub take the process's."""
    with sqlite_databases.fresh() as url:
        database = Database(url, clock=clock)
        asked = Asked(database)
        yield make_stage(asked)
        asked.close()
        database.close()


def row(stage: Stage, comparison: Any) -> Any:
    with stage.database.read() as connection:
        query = select(tables.comparisons).where(tables.comparisons.c.id == uuid.UUID(comparison["id"]))
        return connection.execute(query).one()


def expire(stage: Stage, comparison: Any) -> None:
    """Let the claim's lease have ended a moment ago."""
    past = datetime.now(UTC) - timedelta(seconds=1)
    with stage.database.write() as connection:
        query = update(tables.comparisons).where(tables.comparisons.c.id == uuid.UUID(comparison["id"]))
        connection.execute(query.values(lease_expires_at=past))


def beat(claim: Any, current: Any = 0, candidate: Any = 0) -> dict[str, Any]:
    return {
        "claim_token": claim["claim_token"],
        "current_completed_cases": current,
        "candidate_completed_cases": candidate,
    }


def failed(claim: Any, **fields: Any) -> dict[str, Any]:
    return {"claim_token": claim["claim_token"], "outcome": "failed", **fields}


# The claim.


def test_a_claim_has_the_token_the_pins_and_the_queries_and_no_label(stage):
    comparison = stage.create()
    answer = stage.call(comparison, "claim")
    claim = answer.json()
    assert answer.headers["cache-control"] == "no-store"
    assert set(claim) == {"comparison", "claim_token", "claim_expires_at", "retrieval_settings", "cases"}
    assert claim["cases"] == [{"case_id": case["case_id"], "query": case["query"]} for case in stage.cases]
    assert (claim["comparison"]["status"], claim["comparison"]["version"]) == ("running", 2)
    assert claim["comparison"]["pins"] == comparison["pins"]
    assert claim["claim_expires_at"] == claim["comparison"]["lease_expires_at"]
    lease, deadline, claimed = (
        datetime.fromisoformat(claim["comparison"][name]) for name in ("lease_expires_at", "deadline_at", "claimed_at")
    )
    assert (lease - claimed, deadline - claimed) == (timedelta(seconds=120), timedelta(hours=1))


def test_a_claim_is_given_once_ever(stage):
    comparison, claim = stage.claimed()
    for _ in range(2):
        told = refused(stage.call(comparison, "claim"), 409, "COMPARISON_CLAIM_TAKEN")
        assert told["current_version"] == 2
    expire(stage, comparison)
    refused(stage.call(comparison, "claim"), 409, "COMPARISON_CLAIM_EXPIRED")
    assert stage.read(comparison)["error_code"] == "COMPARISON_CLAIM_EXPIRED"
    refused(stage.call(comparison, "progress", **beat(claim)), 409, "COMPARISON_CLAIM_EXPIRED")
    assert stage.create()["status"] == "pending"


@pytest.mark.timeout(60)
def test_a_claim_takes_no_body_or_an_empty_one(stage):
    """And does not wait for a body that nobody sends."""
    for content in (b"", b"{}"):
        comparison = stage.create()
        answer = stage.consumer.send(f"{PATH}/{comparison['id']}/claim", content)
        assert answer.status_code == 200
        assert stage.call(comparison, "finish", **failed(answer.json())).status_code == 200
    comparison = stage.create()
    for content in (b"[]", b'"canary-canary"', b"1", b"{", b'{"claim_token": "canary-canary"}', b'{"canary-key": 1}'):
        refused(stage.consumer.send(f"{PATH}/{comparison['id']}/claim", content), 422, "INVALID_REQUEST")
    assert stage.read(comparison) == comparison


def test_no_token_is_kept_but_its_hash(stage):
    comparison, claim = stage.claimed()
    kept = row(stage, comparison)
    assert claim["claim_token"] not in repr(tuple(kept))
    assert kept.claim_token_sha256 not in stage.operator.get(f"{PATH}/{comparison['id']}").text
    assert kept.claim_token_sha256 not in stage.operator.get("/audit-events").text
    assert claim["claim_token"].startswith("steelyard_claim_")


# Assignment.


def test_assigned_are_the_callers_comparisons_that_have_not_ended(stage):
    comparison = stage.create()

    def assigned() -> list[Any]:
        return [each["status"] for each in stage.consumer.get(f"{PATH}/assigned").json()["items"]]

    assert assigned() == ["pending"]
    claim = stage.claim(comparison)
    assert assigned() == ["running"]
    stage.operator.post(f"{PATH}/{comparison['id']}/cancel", expected_version=2)
    assert assigned() == ["cancel_requested"]
    stage.call(comparison, "finish", claim_token=claim["claim_token"], outcome="cancelled")
    assert assigned() == []
    expired = stage.create()
    stage.claim(expired)
    expire(stage, expired)
    assert assigned() == []
    assert row(stage, expired).status == "interrupted"


def test_assigned_has_a_limit_and_no_offset(stage):
    refusals = ("limit=0", "limit=101", "limit=", "limit=x", "limit=1.5", "offset=0", "canary-canary=1")
    for query in (*refusals, "project_binding_id=" + stage.ids["project_binding_id"], "limit=" + "9" * 50):
        answer = stage.asked.ask("GET", f"/api/v1{PATH}/assigned?{query}", headers=stage.consumer.headers)
        refused(answer, 422, "INVALID_REQUEST")
    for limit in (1, 100):
        assert stage.consumer.get(f"{PATH}/assigned", limit=limit).json()["limit"] == limit


# Progress.


def test_counts_rise_stay_and_never_fall(stage):
    comparison, claim = stage.claimed()
    for current, candidate in ((0, 0), (1, 0), (1, 0), (2, 3), (3, 3)):
        answer = stage.call(comparison, "progress", **beat(claim, current, candidate))
        told = answer.json()
        assert answer.status_code == 200
        assert (told["current_completed_cases"], told["candidate_completed_cases"]) == (current, candidate)
        assert (told["status"], told["version"], told["cancel_requested"]) == ("running", 2, False)
    for current, candidate in ((2, 3), (3, 2), (0, 0)):
        told = refused(
            stage.call(comparison, "progress", **beat(claim, current, candidate)), 409, "COMPARISON_COUNTS_FELL"
        )
        assert told["current_version"] == 2
    for current, candidate in ((4, 3), (3, 100), (100, 100)):
        refused(stage.call(comparison, "progress", **beat(claim, current, candidate)), 422, "INVALID_REQUEST")
    assert stage.read(comparison)["current_completed_cases"] == 3


def test_counts_are_whole_numbers_of_at_most_a_suites_cases(stage):
    comparison, claim = stage.claimed()
    odd_counts: list[Any] = [-1, 101, 1.5, 1.0, "1", "canary-canary", None, True, [1], {}, 10**30, -(10**30)]
    for odd in odd_counts:
        refused(stage.call(comparison, "progress", **beat(claim, odd, 0)), 422, "INVALID_REQUEST")
        refused(stage.call(comparison, "progress", **beat(claim, 0, odd)), 422, "INVALID_REQUEST")
    for text in (b"NaN", b"Infinity", b"1e999", b"1" * 5000, b"-0.0", b"01"):
        body = b'{"claim_token": "canary-canary", "candidate_completed_cases": 0, "current_completed_cases": %s}' % text
        refused(stage.consumer.send(f"{PATH}/{comparison['id']}/progress", body), 422, "INVALID_REQUEST")
    refused(stage.call(comparison, "progress", **beat(claim), extra="canary-canary"), 422, "INVALID_REQUEST")
    assert stage.read(comparison)["current_completed_cases"] == 0


def test_a_wrong_token_is_a_403_with_a_code_of_its_own_and_shows_nothing(stage):
    comparison, claim = stage.claimed()
    near = claim["claim_token"]
    for token in (*WRONG_TOKENS, near + "A", near[:-1], near.upper(), near + " ", "T" * 200):
        wrong = {**claim, "claim_token": token}
        refused(stage.call(comparison, "progress", **beat(wrong)), 403, "WRONG_CLAIM_TOKEN")
        refused(stage.call(comparison, "finish", **failed(wrong)), 403, "WRONG_CLAIM_TOKEN")
    for token in ("", "T" * 201, None, 1, [near], {near: near}):
        wrong = {**claim, "claim_token": token}
        refused(stage.call(comparison, "progress", **beat(wrong)), 422, "INVALID_REQUEST")
        refused(stage.call(comparison, "finish", **failed(wrong)), 422, "INVALID_REQUEST")
    assert stage.read(comparison) == stage.read(claim["comparison"])


def test_a_token_of_another_comparison_is_a_wrong_one(stage):
    other = make_stage(stage.asked, slug="other")
    comparison, _ = stage.claimed()
    _, foreign = other.claimed()
    refused(stage.call(comparison, "progress", **beat(foreign)), 403, "WRONG_CLAIM_TOKEN")


def test_without_a_claim_no_token_is_right(stage):
    comparison = stage.create()
    for token in (*WRONG_TOKENS, "0" * 64):
        claim = {"claim_token": token}
        refused(stage.call(comparison, "progress", **beat(claim)), 403, "WRONG_CLAIM_TOKEN")
        refused(stage.call(comparison, "finish", **failed(claim)), 403, "WRONG_CLAIM_TOKEN")
    assert stage.read(comparison) == comparison


# The two ends without a result.


def test_a_failure_may_have_a_code(stage):
    for code in (None, "A", "CONSUMER_SHUTDOWN", "A" + "9_" * 31 + "Z"):
        comparison, claim = stage.claimed()
        ended = stage.call(comparison, "finish", **failed(claim, error_code=code)).json()
        assert (ended["status"], ended["version"], ended["error_code"]) == ("failed", 3, code)
        assert ended["evaluation_summary"] is None


def test_the_end_has_no_other_shape(stage):
    comparison, claim = stage.claimed()
    for code in ("", "lower_case", "1A", "_A", "A" * 65, "CANARY CODE", "CANARY-CODE", "CANARY\n", "É" * 9, 1, ["A"]):
        refused(stage.call(comparison, "finish", **failed(claim, error_code=code)), 422, "INVALID_REQUEST")
    for outcome in ("completed", "interrupted", "FAILED", "", None, 1, ["failed"]):
        refused(stage.call(comparison, "finish", **failed(claim, outcome=outcome)), 422, "INVALID_REQUEST")
    refused(
        stage.call(comparison, "finish", **failed(claim, outcome="cancelled", error_code="CANARY_CODE")),
        422, "INVALID_REQUEST",
    )  # fmt: skip
    refused(stage.call(comparison, "finish", **failed(claim, reason="canary-canary")), 422, "INVALID_REQUEST")
    assert stage.read(comparison)["status"] == "running"


def test_a_cancelled_end_needs_a_request_to_cancel(stage):
    comparison, claim = stage.claimed()
    told = refused(
        stage.call(comparison, "finish", **failed(claim, outcome="cancelled")), 409, "COMPARISON_CANCEL_NOT_REQUESTED"
    )
    assert told["current_version"] == 2
    stage.operator.post(f"{PATH}/{comparison['id']}/cancel", expected_version=2)
    told = stage.call(comparison, "progress", **beat(claim, 1, 1)).json()
    assert (told["status"], told["cancel_requested"], told["version"]) == ("cancel_requested", True, 3)
    refused(stage.call(comparison, "result", **stage.result(claim)), 409, "COMPARISON_CANCEL_REQUESTED")
    ended = stage.call(comparison, "finish", **failed(claim, outcome="cancelled")).json()
    assert (ended["status"], ended["version"], ended["error_code"]) == ("cancelled", 4, None)


def test_a_failure_is_taken_while_a_cancel_is_requested(stage):
    comparison, claim = stage.claimed()
    stage.operator.post(f"{PATH}/{comparison['id']}/cancel", expected_version=2)
    assert stage.call(comparison, "finish", **failed(claim)).json()["status"] == "failed"


# Time.


def test_a_call_on_an_expired_claim_is_refused_and_what_it_found_out_is_kept(stage):
    calls = {
        "claim": lambda claim: {},
        "progress": beat,
        "finish": failed,
        "result": stage.result,
    }
    for call, body in calls.items():
        comparison, claim = stage.claimed()
        expire(stage, comparison)
        told = refused(stage.call(comparison, call, **body(claim)), 409, "COMPARISON_CLAIM_EXPIRED")
        assert told["current_version"] == 3
        kept = row(stage, comparison)
        assert (kept.status, kept.error_code, kept.version) == ("interrupted", "COMPARISON_CLAIM_EXPIRED", 3)
        assert kept.claim_token_sha256
        for other, its_body in calls.items():
            refused(stage.call(comparison, other, **its_body(claim)), 409, "COMPARISON_CLAIM_EXPIRED")


@pytest.mark.parametrize("call", ["a wrong token", "cancel", "create", "list", "get", "assigned", "replay"])
def test_every_call_ends_an_expired_claim(stage, call):
    body = stage.body()
    comparison = stage.operator.post(PATH, **body).json()
    claim = stage.claim(comparison)
    expire(stage, comparison)
    if call == "a wrong token":
        wrong = {**claim, "claim_token": "steelyard_claim_canary"}
        refused(stage.call(comparison, "progress", **beat(wrong)), 409, "COMPARISON_CLAIM_EXPIRED")
    elif call == "cancel":
        answer = stage.operator.post(f"{PATH}/{comparison['id']}/cancel", expected_version=2)
        refused(answer, 409, "COMPARISON_CLAIM_EXPIRED")
    elif call == "create":
        refused(stage.operator.post(PATH, **stage.body(corpus_sha256="cd" * 32)), 422, "CORPUS_MISMATCH")
    elif call == "list":
        assert stage.operator.get(PATH).json()["items"][0]["status"] == "interrupted"
    elif call == "get":
        assert stage.read(comparison)["status"] == "interrupted"
    elif call == "assigned":
        assert stage.consumer.get(f"{PATH}/assigned").json()["items"] == []
    else:
        assert stage.operator.post(PATH, **body).json()["status"] == "interrupted"
    assert row(stage, comparison).status == "interrupted"
    [event, *_] = stage.operator.get("/audit-events", action="comparison.interrupt").json()["items"]
    assert (event["actor_role"], event["actor"]) == ("hub", "hub")


def test_a_new_intent_takes_the_place_of_an_expired_one_at_once(stage):
    comparison, claim = stage.claimed()
    expire(stage, comparison)
    second = stage.create()
    assert stage.claim(second)["claim_token"] != claim["claim_token"]
    refused(stage.call(second, "progress", **beat(claim)), 403, "WRONG_CLAIM_TOKEN")


def test_a_lease_is_120_seconds_and_progress_renews_it(timed, clock):
    comparison, claim = timed.claimed()
    clock.pass_by(seconds=119.999999)
    assert timed.call(comparison, "progress", **beat(claim)).status_code == 200
    clock.pass_by(seconds=119.999)
    assert timed.call(comparison, "progress", **beat(claim, 1, 1)).status_code == 200
    clock.pass_by(seconds=120)
    refused(timed.call(comparison, "progress", **beat(claim, 2, 2)), 409, "COMPARISON_CLAIM_EXPIRED")
    assert timed.read(comparison)["current_completed_cases"] == 1


def test_nothing_extends_the_deadline_of_an_hour(timed, clock):
    comparison, claim = timed.claimed()
    for _ in range(59):
        clock.pass_by(seconds=60)
        told = timed.call(comparison, "progress", **beat(claim)).json()
    deadline = datetime.fromisoformat(claim["comparison"]["deadline_at"])
    assert datetime.fromisoformat(told["claim_expires_at"]) == deadline
    clock.now = deadline - timedelta(milliseconds=1)
    assert timed.call(comparison, "progress", **beat(claim)).status_code == 200
    clock.now = deadline
    refused(timed.call(comparison, "finish", **failed(claim)), 409, "COMPARISON_CLAIM_EXPIRED")


@pytest.mark.parametrize(("late_ms", "status"), [(-1, 200), (0, 409), (1, 409)])
def test_a_result_counts_until_the_last_moment_of_the_claim(timed, clock, late_ms, status):
    comparison, claim = timed.claimed()
    result = timed.result(claim)
    clock.now = datetime.fromisoformat(claim["claim_expires_at"]) + timedelta(milliseconds=late_ms)
    assert timed.call(comparison, "result", **result).status_code == status
    assert timed.read(comparison)["status"] == ("completed" if status == 200 else "interrupted")


# A target that changes.


@pytest.mark.parametrize("at", ["claim", "result"])
@pytest.mark.parametrize("name", CHANGES)
def test_a_changed_target_is_found_kept_and_makes_room_for_a_new_intent(stage, name, at):
    change, undo = CHANGES[name]
    comparison = stage.create()
    claim = stage.claim(comparison) if at == "result" else None
    body = stage.result(claim) if claim else {}
    change(stage)
    told = refused(stage.call(comparison, at, **body), 409, "COMPARISON_TARGET_CHANGED")
    found = stage.read(comparison)
    assert (found["status"], found["error_code"]) == ("interrupted", "COMPARISON_TARGET_CHANGED")
    assert told["current_version"] == found["version"]
    assert stage.consumer.get(f"{PATH}/assigned").json()["items"] == []
    refused(stage.call(comparison, at, **body), 409, "COMPARISON_TARGET_CHANGED")
    if undo:
        undo(stage)
        refused(stage.call(comparison, at, **body), 409, "COMPARISON_TARGET_CHANGED")
        assert stage.create()["status"] == "pending"
    else:
        refused(stage.operator.post(PATH, **stage.body()), 409, "NOT_ELIGIBLE")


@pytest.mark.parametrize("at", ["claim", "result"])
@pytest.mark.parametrize("name", [name for name, (_change, undo) in CHANGES.items() if undo])
def test_a_change_that_was_undone_before_anybody_looked_is_none(stage, name, at):
    change, undo = CHANGES[name]
    assert undo is not None
    comparison = stage.create()
    claim = stage.claim(comparison) if at == "result" else None
    change(stage)
    undo(stage)
    claim = claim or stage.claim(comparison)
    answer = stage.call(comparison, "result", **stage.result(claim))
    assert (answer.status_code, answer.json()["status"]) == (200, "completed")


def test_progress_and_an_end_without_a_result_do_not_look_at_the_target(stage):
    comparison, claim = stage.claimed()
    move_pointer(stage)
    assert stage.call(comparison, "progress", **beat(claim, 1, 1)).status_code == 200
    assert stage.call(comparison, "finish", **failed(claim)).json()["status"] == "failed"


def test_a_revoked_consumer_cannot_go_on_and_an_operator_can_end_it(stage):
    comparison, claim = stage.claimed()
    result = stage.result(claim)
    revoked = stage.operator.post(f"/service-clients/{stage.ids['consumer_client_id']}/revoke", expected_version=1)
    assert revoked.status_code == 200
    for call, body in (("progress", beat(claim)), ("result", result), ("finish", failed(claim)), ("claim", {})):
        refused(stage.call(comparison, call, **body), 401, "UNAUTHORIZED")
    asked = stage.operator.post(f"{PATH}/{comparison['id']}/cancel", expected_version=2).json()
    assert asked["status"] == "cancel_requested"
    expire(stage, comparison)
    assert stage.read(comparison)["status"] == "interrupted"


def test_a_rotated_credential_goes_on_with_the_claim(stage):
    """The claim is the client's, not its credential's."""
    comparison, claim = stage.claimed()
    issued = stage.operator.make(f"/service-clients/{stage.ids['consumer_client_id']}/credentials", name="new")
    stage.operator.post(f"/credentials/{stage.ids['credential_id']}/revoke")
    refused(stage.call(comparison, "progress", **beat(claim)), 401, "UNAUTHORIZED")
    renewed = stage.asked.holder(issued["secret"])
    assert stage.call(comparison, "progress", caller=renewed, **beat(claim)).status_code == 200
