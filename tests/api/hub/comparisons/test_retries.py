"""A call that is sent again: the same one is answered as before and does nothing, another one is refused."""

from __future__ import annotations

import json
import uuid
from typing import TYPE_CHECKING, Any

import pytest
from sqlalchemy import func, select
from tests.comparing import PATH
from tests.problems import refused

from steelyard.hub.db import tables

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.comparing import Stage


def events(stage: Stage) -> int:
    with stage.database.read() as connection:
        return connection.scalar(select(func.count()).select_from(tables.audit_events)) or 0


def rows(stage: Stage) -> dict[str, list[Any]]:
    """Return everything that the database has, for telling whether a call has changed anything."""
    with stage.database.read() as connection:
        return {
            name: sorted(map(str, connection.execute(select(table)))) for name, table in tables.metadata.tables.items()
        }


@pytest.fixture
def published(stage: Stage) -> Any:
    """Give a comparison, its result and the answer to it."""
    comparison, claim = stage.claimed()
    ranking = [{"chunk_id": "chunk-1", "document_id": None, "score": 1.0}, {"chunk_id": "chunk-2", "score": 0.0}]
    result = stage.result(claim, current=stage.leg(case_0={"ranked_results": ranking, "latency_ms": 20.0}))
    answer = stage.call(comparison, "result", **result)
    assert answer.status_code == 200, answer.text
    return comparison, result, answer.json()


def test_an_identical_result_is_answered_as_before_and_adds_nothing(stage, published):
    comparison, result, done = published
    before = rows(stage)
    for _ in range(3):
        again = stage.call(comparison, "result", **result)
        assert (again.status_code, again.json()) == (200, done)
    assert rows(stage) == before


def _with_first(body: dict[str, Any], change: Callable[[dict[str, Any]], object]) -> dict[str, Any]:
    copy: dict[str, Any] = json.loads(json.dumps(body))
    change(copy["current"]["results"][0])
    return copy


def test_the_same_numbers_and_nulls_in_another_spelling_are_the_same_result(stage, published):
    comparison, result, done = published
    first = result["current"]["results"][0]
    upper = {
        **result,
        "current": {"results": [{**first, "case_id": first["case_id"].upper()}, *result["current"]["results"][1:]]},
    }
    same = [
        _with_first(result, lambda case: case["ranked_results"][0].update(score=1)),
        _with_first(result, lambda case: case["ranked_results"][1].update(score=0)),
        _with_first(result, lambda case: case.update(latency_ms=20)),
        _with_first(result, lambda case: case.update(error_code=None)),
        _with_first(result, lambda case: case["ranked_results"][0].pop("document_id")),
        _with_first(result, lambda case: case["ranked_results"][1].update(document_id=None)),
        dict(reversed(result.items())),
        upper,
    ]
    for body in same:
        again = stage.call(comparison, "result", **body)
        assert (again.status_code, again.json()) == (200, done)
    for text in (b"1e0", b"1.000", b"10e-1"):
        content = json.dumps(result).encode().replace(b'"score": 1.0', b'"score": ' + text, 1)
        assert content != json.dumps(result).encode()
        assert stage.consumer.send(f"{PATH}/{comparison['id']}/result", content).json() == done


def test_any_other_result_is_a_409_and_changes_nothing(stage, published):
    comparison, result, done = published
    before = rows(stage)
    mapping = result["current_gateway_requests"]
    ids = list(mapping)
    others = [
        _with_first(result, lambda case: case["ranked_results"][0].update(score=1.0000000000000002)),
        _with_first(result, lambda case: case.update(latency_ms=20.1)),
        _with_first(result, lambda case: case.update(ranked_results=[])),
        _with_first(result, lambda case: case["ranked_results"].reverse()),
        _with_first(result, lambda case: case["ranked_results"][0].update(document_id="d")),
        _with_first(result, lambda case: case.update(ranked_results=[], error_code="TIMEOUT")),
        {**result, "consumer_revision_sha256": "ef" * 32},
        {**result, "pins_digest": "ef" * 32},
        {**result, "current": result["candidate"], "candidate": result["current"]},
        {**result, "current_gateway_requests": {**mapping, ids[0]: mapping[ids[1]], ids[1]: mapping[ids[0]]}},
        {**result, "current_gateway_requests": {**mapping, ids[0]: uuid.uuid4().hex}},
        {**result, "claim_token": "steelyard_claim_canary"},
        {**result, "current": {"results": result["current"]["results"][::-1]}},
        {**result, "current": {"results": []}},
    ]
    for body in others:
        told = refused(stage.call(comparison, "result", **body), 409, "COMPARISON_ENDED")
        assert told["current_version"] == 3
    assert rows(stage) == before
    assert stage.read(comparison) == done


def test_no_other_call_is_answered_once_it_has_ended(stage, published):
    comparison, result, done = published
    token = {"claim_token": result["claim_token"]}
    refused(stage.call(comparison, "claim"), 409, "COMPARISON_ENDED")
    counts = {"current_completed_cases": 3, "candidate_completed_cases": 3}
    refused(stage.call(comparison, "progress", **token, **counts), 409, "COMPARISON_ENDED")
    for outcome in ("failed", "cancelled"):
        refused(stage.call(comparison, "finish", **token, outcome=outcome), 409, "COMPARISON_ENDED")
    for version in (1, 2, 3, 4):
        refused(
            stage.operator.post(f"{PATH}/{comparison['id']}/cancel", expected_version=version), 409, "COMPARISON_ENDED"
        )
    assert stage.read(comparison) == done


def test_an_identical_end_is_answered_as_before(stage):
    for end in ({"outcome": "failed"}, {"outcome": "failed", "error_code": "OOM"}):
        comparison, claim = stage.claimed()
        token = {"claim_token": claim["claim_token"]}
        done = stage.call(comparison, "finish", **token, **end).json()
        before = rows(stage)
        for same in (end, {"error_code": None, **end}):
            again = stage.call(comparison, "finish", **token, **same)
            assert (again.status_code, again.json()) == (200, done)
        others = ({"outcome": "failed", "error_code": "OTHER"}, {"outcome": "cancelled"})
        for other in others:
            refused(stage.call(comparison, "finish", **token, **other), 409, "COMPARISON_ENDED")
        refused(stage.call(comparison, "finish", claim_token="canary-canary", **end), 409, "COMPARISON_ENDED")
        refused(stage.call(comparison, "result", **stage.result(claim)), 409, "COMPARISON_ENDED")
        assert stage.read(comparison) == done
        assert rows(stage)["comparisons"] == before["comparisons"]


def test_a_cancelled_end_is_repeated_too(stage):
    comparison, claim = stage.claimed()
    cancel = f"{PATH}/{comparison['id']}/cancel"
    stage.operator.post(cancel, expected_version=2)
    end = {"claim_token": claim["claim_token"], "outcome": "cancelled"}
    done = stage.call(comparison, "finish", **end).json()
    assert stage.call(comparison, "finish", **end).json() == done
    # The operator's call, repeated with the version that it had, is answered with what has come of it.
    assert stage.operator.post(cancel, expected_version=2).json() == done
    refused(stage.operator.post(cancel, expected_version=4), 409, "COMPARISON_ENDED")


def test_a_cancel_is_repeated_with_its_old_version(stage):
    pending = stage.create()
    cancel = f"{PATH}/{pending['id']}/cancel"
    told = refused(stage.operator.post(cancel, expected_version=2), 409, "VERSION_CONFLICT")
    assert told["current_version"] == 1
    done = stage.operator.post(cancel, expected_version=1).json()
    assert (done["status"], done["version"]) == ("cancelled", 2)
    before = events(stage)
    assert stage.operator.post(cancel, expected_version=1).json() == done
    for version in (2, 3):
        refused(stage.operator.post(cancel, expected_version=version), 409, "COMPARISON_ENDED")
    assert events(stage) == before


def test_a_requested_cancel_is_repeated_with_either_version(stage):
    comparison, _claim = stage.claimed()
    cancel = f"{PATH}/{comparison['id']}/cancel"
    refused(stage.operator.post(cancel, expected_version=1), 409, "VERSION_CONFLICT")
    asked = stage.operator.post(cancel, expected_version=2).json()
    assert (asked["status"], asked["version"]) == ("cancel_requested", 3)
    before = events(stage)
    for version in (2, 3):
        assert stage.operator.post(cancel, expected_version=version).json() == asked
    for version in (1, 4):
        refused(stage.operator.post(cancel, expected_version=version), 409, "VERSION_CONFLICT")
    assert events(stage) == before
    odd: list[Any] = [0, -1, 2.0, "2", True, None, 2**31, 10**30, [2]]
    for version in odd:
        refused(stage.operator.post(cancel, expected_version=version), 422, "INVALID_REQUEST")
    refused(stage.operator.post(cancel), 422, "INVALID_REQUEST")
    refused(stage.operator.post(cancel, expected_version=3, reason="canary-canary"), 422, "INVALID_REQUEST")


def test_progress_is_a_plain_heartbeat_when_repeated_and_leaves_the_version_to_the_operator(stage):
    comparison, claim = stage.claimed()
    beat = {"claim_token": claim["claim_token"], "current_completed_cases": 2, "candidate_completed_cases": 1}
    told = [stage.call(comparison, "progress", **beat).json() for _ in range(3)]
    assert [each["version"] for each in told] == [2, 2, 2]
    expiries = [each["claim_expires_at"] for each in told]
    assert expiries == sorted(expiries)
    assert expiries[0] < expiries[2]
    assert stage.operator.post(f"{PATH}/{comparison['id']}/cancel", expected_version=2).status_code == 200
