"""What is committed with a call on a comparison: all of it at once, and what a refused call found out too."""

from __future__ import annotations

import json
from contextlib import closing
from typing import TYPE_CHECKING, Any
from uuid import UUID

import pytest
from sqlalchemy import select, update
from tests.api.hub.test_transactions import counted, rows
from tests.comparing import PATH, make_stage
from tests.hub_api import Asked

from steelyard.hall.digests import sha256_of_text
from steelyard.hub.comparisons import publication, store
from steelyard.hub.db import epoch, sidecar, tables
from steelyard.hub.db.database import Database
from steelyard.hub.db.errors import StoreUnavailable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from httpx2 import Response
    from tests.comparing import Stage


def fail(*_arguments: object, **_fields: object) -> None:
    raise ZeroDivisionError


def expire(stage: Stage) -> None:
    with stage.database.write() as connection:
        now = stage.database.now(connection)
        active = update(tables.comparisons).where(tables.comparisons.c.ended_at.is_(None))
        connection.execute(active.values(lease_expires_at=now))


def close_route(stage: Stage) -> None:
    path = f"/routes/{stage.ids['candidate_route_id']}/deactivate"
    assert stage.operator.post(path, expected_version=1).status_code == 200


def created(stage: Stage) -> Callable[[], Response]:
    body = stage.body()
    return lambda: stage.operator.post(PATH, **body)


def claimed(stage: Stage) -> Callable[[], Response]:
    comparison = stage.create()
    return lambda: stage.call(comparison, "claim")


def progressed(stage: Stage) -> Callable[[], Response]:
    comparison, claim = stage.claimed()
    body = {"claim_token": claim["claim_token"], "current_completed_cases": 1, "candidate_completed_cases": 1}
    return lambda: stage.call(comparison, "progress", **body)


def cancelled(stage: Stage) -> Callable[[], Response]:
    comparison = stage.create()
    return lambda: stage.call(comparison, "cancel", caller=stage.operator, expected_version=1)


def asked_to_stop(stage: Stage) -> Callable[[], Response]:
    comparison, _claim = stage.claimed()
    return lambda: stage.call(comparison, "cancel", caller=stage.operator, expected_version=2)


def failed(stage: Stage) -> Callable[[], Response]:
    comparison, claim = stage.claimed()
    return lambda: stage.call(comparison, "finish", claim_token=claim["claim_token"], outcome="failed")


def published(stage: Stage) -> Callable[[], Response]:
    comparison, claim = stage.claimed()
    result = stage.result(claim)
    return lambda: stage.call(comparison, "result", **result)


CHANGES = [created, claimed, progressed, cancelled, asked_to_stop, failed, published]
changes = pytest.mark.parametrize("prepare", CHANGES, ids=lambda prepare: prepare.__name__)


@changes
def test_every_call_is_one_commit_and_a_claim_s_beat_is_one_of_its_own(stage, prepare):
    call = prepare(stage)
    with counted(stage.database) as ends:
        assert call().status_code in (200, 201)
        has_beat = prepare is claimed and not stage.database.is_postgresql
        assert ends == {"commit": 2 if has_beat else 1}


@pytest.mark.parametrize(
    "prepare", [each for each in CHANGES if each is not progressed], ids=lambda each: each.__name__
)
def test_a_call_whose_event_cannot_be_written_has_changed_nothing_and_can_be_made_again(stage, prepare, monkeypatch):
    call = prepare(stage)
    before = rows(stage.database)
    with monkeypatch.context() as patch:
        patch.setattr("steelyard.hub.audit.store.record", fail)
        assert call().status_code == 500
    assert rows(stage.database) == before
    assert call().status_code in (200, 201)
    assert len(rows(stage.database)["audit_events"]) == len(before["audit_events"]) + 1


@pytest.mark.parametrize("part", ["_insert_run", "_insert_evidence", "change"])
def test_a_result_of_which_one_part_cannot_be_written_leaves_no_part(stage, monkeypatch, part):
    publish = published(stage)
    before = rows(stage.database)
    with monkeypatch.context() as patch:
        patch.setattr(store, part, fail)
        assert publish().status_code == 500
    assert rows(stage.database) == before
    assert publish().status_code == 200


def test_a_result_whose_second_leg_cannot_be_written_leaves_no_first_one(stage, monkeypatch):
    publish = published(stage)
    before = rows(stage.database)
    real = store._insert_run

    def insert(connection, result, leg):
        if leg == "candidate":
            raise ZeroDivisionError
        real(connection, result, leg)

    with monkeypatch.context() as patch:
        patch.setattr(store, "_insert_run", insert)
        assert publish().status_code == 500
    assert rows(stage.database) == before
    assert publish().status_code == 200


def test_a_request_that_becomes_evidence_of_another_case_meanwhile_is_refused_and_nothing_is_published(
    stage, monkeypatch
):
    """No two calls can bring this about, for a request lies in one claim: the table's own key is what is left."""
    first, claim = stage.claimed()
    failure = {"ranked_results": [], "error_code": "TIMEOUT"}
    requests = stage.evidence("candidate")
    unmapped = stage.cases[0]["case_id"]
    del requests[unmapped]
    result = stage.result(claim, candidate=stage.leg(case_0=failure), candidate_gateway_requests=requests)
    assert stage.call(first, "result", **result).status_code == 200

    second, claim = stage.claimed()
    result = stage.result(claim)
    real = publication._completes

    def take_meanwhile(before, verdict):
        monkeypatch.setattr(publication, "_completes", real)
        with stage.database.write() as connection:
            run = connection.scalar(
                select(tables.evaluation_runs.c.id).where(
                    tables.evaluation_runs.c.comparison_id == UUID(first["id"]),
                    tables.evaluation_runs.c.leg == "candidate",
                )
            )
            wanted = result["current_gateway_requests"][unmapped]
            row_id = connection.scalar(
                select(tables.gateway_requests.c.id).where(tables.gateway_requests.c.request_id == wanted)
            )
            connection.execute(
                tables.evaluation_evidence.insert().values(
                    gateway_request_id=row_id, evaluation_run_id=run, case_id=UUID(unmapped)
                )
            )
        return real(before, verdict)

    monkeypatch.setattr(publication, "_completes", take_meanwhile)
    for _ in range(2):
        answer = stage.call(second, "result", **result)
        assert (answer.status_code, answer.json()["code"]) == (422, "EVIDENCE_REUSED")
    assert stage.read(second)["status"] == "running"
    assert len(rows(stage.database)["evaluation_runs"]) == 2
    assert stage.call(second, "result", **stage.result(claim)).status_code == 200


REFUSED: dict[str, Callable[[Stage, Any, str], Response]] = {
    "a progress without its token": lambda stage, comparison, _token: stage.call(
        comparison, "progress", claim_token="wrong", current_completed_cases=0, candidate_completed_cases=0
    ),
    "a late progress": lambda stage, comparison, token: stage.call(
        comparison, "progress", claim_token=token, current_completed_cases=0, candidate_completed_cases=0
    ),
    "a late result": lambda stage, comparison, token: stage.call(
        comparison, "result", **stage.result({"claim_token": token, "comparison": comparison})
    ),
    "a late end": lambda stage, comparison, token: stage.call(
        comparison, "finish", claim_token=token, outcome="failed"
    ),
    "a second claim": lambda stage, comparison, _token: stage.call(comparison, "claim"),
    "a cancel": lambda stage, comparison, _token: stage.call(
        comparison, "cancel", caller=stage.operator, expected_version=2
    ),
}  # fmt: skip


@pytest.mark.parametrize("call", REFUSED.values(), ids=REFUSED)
def test_what_a_refused_call_found_out_is_committed(stage, call):
    comparison, claim = stage.claimed()
    expire(stage)
    answer = call(stage, comparison, claim["claim_token"])
    assert (answer.status_code, answer.json()["code"]) == (409, "COMPARISON_CLAIM_EXPIRED")
    assert answer.json()["current_version"] == 3
    [row] = of(stage, comparison)
    assert (row.status, row.version, row.error_code) == ("interrupted", 3, "COMPARISON_CLAIM_EXPIRED")
    assert row.ended_at == row.lease_expires_at
    assert row.claim_token_sha256 == sha256_of_text(claim["claim_token"])


def test_a_refused_creation_commits_that_a_claim_has_expired(stage):
    comparison, _claim = stage.claimed()
    expire(stage)
    close_route(stage)
    answer = stage.operator.post(PATH, **stage.body())
    assert (answer.status_code, answer.json()["code"]) == (409, "NOT_ELIGIBLE")
    assert of(stage, comparison)[0].status == "interrupted"


READS = {
    "the history": lambda stage, _comparison: stage.operator.get(PATH),
    "another project's history": lambda stage, _comparison: stage.operator.get(
        PATH, project_binding_id=str(UUID(int=1))
    ),
    "its detail": lambda stage, comparison: stage.operator.get(f"{PATH}/{comparison['id']}"),
    "what is assigned": lambda stage, _comparison: stage.consumer.get(f"{PATH}/assigned"),
    "a repeated creation": lambda stage, comparison: stage.operator.post(
        PATH, **stage.body(idempotency_key=comparison["idempotency_key"])
    ),
}


@pytest.mark.parametrize("read", READS.values(), ids=READS)
def test_a_read_interrupts_what_has_expired_once(stage, read):
    comparison, _claim = stage.claimed()
    expire(stage)
    assert read(stage, comparison).status_code == 200
    [row] = of(stage, comparison)
    assert (row.status, row.version) == ("interrupted", 3)
    after = rows(stage.database)
    assert read(stage, comparison).status_code == 200
    assert rows(stage.database) == after


def test_a_read_where_nothing_has_expired_writes_nothing(stage):
    comparison, _claim = stage.claimed()
    before = rows(stage.database)
    with counted(stage.database) as ends:
        for read in READS.values():
            if read is not READS["a repeated creation"]:
                assert read(stage, comparison).status_code == 200
        assert ends == {}
    assert rows(stage.database) == before


def of(stage: Stage, comparison: Any) -> list[Any]:
    with stage.database.read() as connection:
        query = select(tables.comparisons).where(tables.comparisons.c.id == UUID(comparison["id"]))
        return list(connection.execute(query))


# Claims.


@pytest.mark.timeout(60)
@pytest.mark.parametrize("body", [None, b"{}", b"null"])
def test_a_claim_may_be_sent_with_nothing_in_its_body_or_without_one(stage, body):
    comparison = stage.create()
    headers = stage.consumer.headers
    answer = stage.asked.ask("POST", f"/api/v1{PATH}/{comparison['id']}/claim", headers=headers, content=body)
    assert answer.status_code == 200, answer.text


def test_a_claim_s_token_is_in_its_answer_alone(stage):
    comparison = stage.create()
    answer = stage.call(comparison, "claim")
    token = answer.json()["claim_token"]
    assert answer.headers["Cache-Control"] == "no-store"
    stored = json.dumps(rows(stage.database), default=str)
    assert token not in stored
    assert stored.count(sha256_of_text(token)) == 1
    shown = [
        stage.read(comparison),
        stage.operator.get(PATH).json(),
        stage.consumer.get(f"{PATH}/assigned").json(),
        stage.operator.get("/audit-events").json(),
        stage.call(comparison, "claim").json(),
        stage.call(comparison, "finish", claim_token=token, outcome="wrong").json(),
        stage.call(comparison, "finish", claim_token=token, outcome="failed").json(),
    ]
    for each in shown:
        assert token not in json.dumps(each)
        assert sha256_of_text(token) not in json.dumps(each)


@pytest.fixture
def on_sqlite(sqlite_databases) -> Iterator[Stage]:
    with sqlite_databases.fresh() as url, closing(Database(url)) as database, closing(Asked(database)) as asked:
        yield make_stage(asked)


def test_a_claim_counts_a_beat_so_that_an_older_file_is_told_from_it(on_sqlite):
    stage = on_sqlite
    epoch.begin(stage.database)
    before = sidecar.read(stage.database.path)
    stage.claimed()
    after = sidecar.read(stage.database.path)
    assert before is not None
    assert after == before._replace(beat=before.beat + 1)


def test_a_claim_is_given_even_if_its_beat_cannot_be_counted(stage, monkeypatch, caplog):
    def refuse(_database):
        raise StoreUnavailable

    monkeypatch.setattr("steelyard.hub.db.epoch.beat", refuse)
    comparison = stage.create()
    answer = stage.call(comparison, "claim")
    assert answer.status_code == 200
    assert "beat after a claim failed" in caplog.text
    assert answer.json()["claim_token"] not in caplog.text


# Repeats.


def test_a_result_is_the_same_whatever_form_its_numbers_and_nothings_have(stage):
    comparison, claim = stage.claimed()
    result = stage.result(claim)
    for leg in ("current", "candidate"):
        for each in result[leg]["results"]:
            each["latency_ms"] = 20.0
            each["ranked_results"][0]["score"] = 1.0
    first = stage.call(comparison, "result", **result)
    assert first.status_code == 200, first.text
    after = rows(stage.database)
    other = json.loads(
        json.dumps(result).replace("20.0", "20").replace('"score": 1.0', '"document_id": null, "score": 1')
    )
    for each in other["candidate"]["results"]:
        each["error_code"] = None
    assert other != result or json.dumps(other) != json.dumps(result)
    again = stage.call(comparison, "result", **other)
    assert (again.status_code, again.json()) == (200, first.json())
    other["candidate"]["results"][0]["latency_ms"] = 20.5
    assert stage.call(comparison, "result", **other).json()["code"] == "COMPARISON_ENDED"
    assert stage.call(comparison, "result", **{**result, "claim_token": "wrong"}).json()["code"] == "COMPARISON_ENDED"
    assert rows(stage.database) == after


def test_a_repeated_result_is_answered_after_its_target_has_changed_and_its_requests_are_evidence(stage):
    comparison, claim = stage.claimed()
    result = stage.result(claim)
    first = stage.call(comparison, "result", **result)
    close_route(stage)
    after = rows(stage.database)
    again = stage.call(comparison, "result", **result)
    assert (again.status_code, again.json()) == (200, first.json())
    assert rows(stage.database) == after


def test_an_end_is_repeated_with_the_same_code_and_absent_is_null(stage):
    comparison, claim = stage.claimed()
    body = {"claim_token": claim["claim_token"], "outcome": "failed"}
    first = stage.call(comparison, "finish", **body)
    assert first.status_code == 200
    again = stage.call(comparison, "finish", **body, error_code=None)
    assert (again.status_code, again.json()) == (200, first.json())
    for other in ({"error_code": "OTHER"}, {"claim_token": "wrong"}):
        assert stage.call(comparison, "finish", **{**body, **other}).json()["code"] == "COMPARISON_ENDED"


def test_a_cancel_is_repeated_with_its_old_version(stage):
    comparison, claim = stage.claimed()
    for version in (2, 2, 3, 2):
        answer = stage.call(comparison, "cancel", caller=stage.operator, expected_version=version)
        assert (answer.status_code, answer.json()["version"]) == (200, 3)
    assert stage.call(comparison, "cancel", caller=stage.operator, expected_version=1).status_code == 409
    stage.call(comparison, "finish", claim_token=claim["claim_token"], outcome="cancelled")
    for version in (2, 3):
        answer = stage.call(comparison, "cancel", caller=stage.operator, expected_version=version)
        assert (answer.status_code, answer.json()["status"]) == (200, "cancelled")
