"""Real threads and several hubs over one database call at once: what comes of it is always what some order allows."""

from __future__ import annotations

import random
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Any
from uuid import UUID

import pytest
from sqlalchemy import func, select, text, update
from tests.comparing import PATH, REVISION, make_stage

from steelyard.hub.comparisons import publication, store
from steelyard.hub.comparisons.domain import protocol
from steelyard.hub.db import prune as pruning
from steelyard.hub.db import tables
from steelyard.hub.db.database import Database

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from httpx2 import Response
    from tests.comparing import Stage
    from tests.hub_api import Asked, Caller

ROUNDS = [4, pytest.param(60, marks=[pytest.mark.slow, pytest.mark.timeout(1800)])]


def at_once(*calls: Callable[[], Any]) -> list[Any]:
    """Make the calls in threads that start together, and return what they return, in order."""
    barrier = threading.Barrier(len(calls))

    def wait_and_call(call: Callable[[], Any]) -> Any:
        barrier.wait(10)
        return call()

    with ThreadPoolExecutor(len(calls)) as threads:
        return list(threads.map(wait_and_call, calls))


def told(answers: Sequence[Response]) -> Counter[tuple[int, str | None]]:
    """Count the answers by status and code."""
    return Counter((answer.status_code, answer.json().get("code")) for answer in answers)


@pytest.fixture
def hubs(stage) -> Iterator[list[Asked]]:
    """Give two hubs over the stage's database: each has connections of its own, as a process would."""
    from tests.hub_api import Asked  # noqa: PLC0415  # The engines' tests need no hub.

    with closing(Database(stage.database.url)) as database, closing(Asked(database)) as other:
        yield [stage.asked, other]


@pytest.fixture(params=ROUNDS)
def rounds(request) -> range:
    """Give so many turns."""
    return range(request.param)


@pytest.fixture
def through(hubs) -> Callable[[Caller, int], Caller]:
    """Give a caller at another hub, by its number."""
    return lambda caller, number: hubs[number % len(hubs)].holder(caller.secret)


def rows(stage: Stage) -> list[Any]:
    with stage.database.read() as connection:
        return list(connection.execute(select(tables.comparisons).order_by(tables.comparisons.c.number)))


def events(stage: Stage, comparison_id: Any) -> list[str]:
    """Return the actions on a comparison, oldest first."""
    query = select(tables.audit_events.c.action).where(tables.audit_events.c.subject_id == comparison_id)
    with stage.database.read() as connection:
        return list(connection.scalars(query.order_by(tables.audit_events.c.id)))


def published(stage: Stage, comparison_id: Any) -> tuple[int, int, int]:
    """Return how many runs, results and summaries a comparison has."""
    runs = select(tables.evaluation_runs.c.id).where(tables.evaluation_runs.c.comparison_id == id_of(comparison_id))
    results = select(func.count()).where(tables.evaluation_results.c.evaluation_run_id.in_(runs))
    summaries = select(func.count()).where(tables.evaluation_summaries.c.comparison_id == id_of(comparison_id))
    with stage.database.read() as connection:
        counts = (connection.scalar(results), connection.scalar(summaries))
        return len(connection.scalars(runs).all()), counts[0] or 0, counts[1] or 0


def id_of(comparison_id: Any) -> UUID:
    return UUID(str(comparison_id))


def end(stage: Stage, comparison_id: Any) -> None:
    """End a comparison that is pending or claimed, so that the next round may begin."""
    with stage.database.write() as connection:
        comparison = store.get(connection, id_of(comparison_id), lock=True)
        ended = protocol.restored(comparison, now=stage.database.now(connection))
        store.change(connection, ended)


def expire(stage: Stage, comparison_id: Any, *, after: timedelta = timedelta(0)) -> None:
    """Let a claim's lease end so long from now."""
    table = tables.comparisons
    with stage.database.write() as connection:
        ends = stage.database.now(connection) + after
        connection.execute(
            update(table).where(table.c.id == id_of(comparison_id)).values(lease_expires_at=ends)
        )  # fmt: skip


# Creating.


def test_of_sixteen_equal_creates_one_makes_it_and_fifteen_replay_it(stage, through, rounds):
    for _ in rounds:
        body = stage.body()
        answers = at_once(*[partial(through(stage.operator, n).post, PATH, **body) for n in range(16)])
        assert told(answers) == {(201, None): 1, (200, None): 15}
        assert [answer.headers.get("Idempotent-Replayed") for answer in answers].count("true") == 15
        assert all(answer.json() == answers[0].json() for answer in answers)
        [made] = {answer.json()["id"] for answer in answers}
        assert events(stage, made) == ["comparison.create"]
        end(stage, made)
    assert len(rows(stage)) == len(rounds)


def test_of_sixteen_different_creates_one_is_active_and_fifteen_are_refused(stage, through, rounds):
    for _ in rounds:
        answers = at_once(*[partial(through(stage.operator, n).post, PATH, **stage.body()) for n in range(16)])
        assert told(answers) == {(201, None): 1, (409, "COMPARISON_ACTIVE"): 15}
        [made] = [answer.json()["id"] for answer in answers if answer.status_code == 201]
        end(stage, made)
    assert len(rows(stage)) == len(rounds)


def test_a_refused_create_has_not_consumed_its_key(stage, through):
    bodies = [stage.body() for _ in range(8)]
    answers = at_once(*[partial(through(stage.operator, n).post, PATH, **body) for n, body in enumerate(bodies)])
    [made] = [answer.json() for answer in answers if answer.status_code == 201]
    for body in bodies:
        if body["idempotency_key"] != made["idempotency_key"]:
            end(stage, rows(stage)[-1].id)
            stage.operator.make(PATH, **body)


def test_of_one_key_with_two_inputs_one_input_is_kept_and_the_other_is_told(stage, through, rounds):
    for _ in rounds:
        body = stage.body()
        inputs = [body, {**body, "candidate_index_ref": "another"}]
        answers = at_once(*[partial(through(stage.operator, n).post, PATH, **inputs[n // 4 % 2]) for n in range(16)])
        assert told(answers) == {(201, None): 1, (200, None): 7, (409, "IDEMPOTENCY_KEY_REUSED"): 8}
        [made] = {answer.json()["id"] for answer in answers if answer.status_code < 300}
        end(stage, made)


@pytest.fixture
def on_postgresql(postgresql_databases) -> Iterator[Stage]:
    """Give a stage on PostgreSQL, where one transaction may commit between two looks of another's."""
    from tests.hub_api import Asked  # noqa: PLC0415

    with postgresql_databases.fresh() as url:
        asked = Asked(Database(url))
        yield make_stage(asked)
        asked.close()
        asked.database.close()


@pytest.mark.parametrize("is_closed", [False, True], ids=["and it is active", "and the target has changed since"])
def test_a_create_that_looked_for_its_key_just_before_another_made_it_replays(on_postgresql, monkeypatch, is_closed):
    stage = on_postgresql
    body = stage.body()
    others: list[Response] = []
    real = store.with_key

    def look_and_be_overtaken(connection, binding_id, *, key):
        found = real(connection, binding_id, key=key)
        if found is None and not others:
            monkeypatch.setattr(store, "with_key", real)
            others.append(in_thread(partial(stage.operator.post, PATH, **body)))
            if is_closed:
                in_thread(partial(close_route, stage))
        return found

    monkeypatch.setattr(store, "with_key", look_and_be_overtaken)
    answer = stage.operator.post(PATH, **body)
    assert (others[0].status_code, answer.status_code) == (201, 200), answer.text
    assert answer.json() == others[0].json()


def in_thread(call: Callable[[], Any]) -> Any:
    with ThreadPoolExecutor(1) as threads:
        return threads.submit(call).result(30)


def close_route(stage: Stage, *, version: int = 1, how: str = "deactivate") -> None:
    path = f"/routes/{stage.ids['candidate_route_id']}/{how}"
    answer = stage.operator.post(path, expected_version=version)
    assert answer.status_code == 200, answer.text


def test_of_creates_against_an_expired_claim_one_is_made_and_the_claim_is_interrupted_once(stage, through, rounds):
    for _ in rounds:
        before, claim = stage.claimed()
        expire(stage, before["id"])
        answers = at_once(
            *[partial(through(stage.operator, n).post, PATH, **stage.body()) for n in range(4)],
            partial(through(stage.operator, 1).get, f"{PATH}/{before['id']}"),
            partial(through(stage.operator, 2).get, PATH),
            partial(progress, stage, before, claim),
            partial(cancel, stage, before, 2),
        )
        assert told(answers[:4]) == {(201, None): 1, (409, "COMPARISON_ACTIVE"): 3}
        assert told(answers[4:6]) == {(200, None): 2}
        assert told(answers[6:]) == {(409, "COMPARISON_CLAIM_EXPIRED"): 2}
        assert stage.read(before)["status"] == "interrupted"
        assert events(stage, before["id"]) == ["comparison.create", "comparison.claim", "comparison.interrupt"]
        end(stage, rows(stage)[-1].id)


# Claims.


def claim_of(stage: Stage, comparison: Any, caller: Caller | None = None) -> Response:
    return stage.call(comparison, "claim", caller=caller)


def progress(stage: Stage, comparison: Any, claim: Any, caller: Caller | None = None) -> Response:
    counts = {"current_completed_cases": 1, "candidate_completed_cases": 0}
    return stage.call(comparison, "progress", caller=caller, claim_token=claim["claim_token"], **counts)


def cancel(stage: Stage, comparison: Any, version: int) -> Response:
    return stage.call(comparison, "cancel", caller=stage.operator, expected_version=version)


def finish(stage: Stage, comparison: Any, claim: Any, **fields: Any) -> Response:
    return stage.call(comparison, "finish", **{"claim_token": claim["claim_token"], "outcome": "failed", **fields})


def test_of_eight_claims_one_is_given(stage, through, rounds):
    for _ in rounds:
        comparison = stage.create()
        answers = at_once(*[partial(claim_of, stage, comparison, through(stage.consumer, n)) for n in range(8)])
        assert told(answers) == {(200, None): 1, (409, "COMPARISON_CLAIM_TAKEN"): 7}
        [claim] = [answer.json() for answer in answers if answer.status_code == 200]
        assert progress(stage, comparison, claim).status_code == 200
        assert events(stage, comparison["id"]) == ["comparison.create", "comparison.claim"]
        end(stage, comparison["id"])


def test_a_claim_and_a_cancel_come_one_after_the_other(stage, through, rounds):
    for turn in rounds:
        comparison = stage.create()
        calls = [
            partial(claim_of, stage, comparison, through(stage.consumer, 1)),
            partial(cancel, stage, comparison, 1),
        ]
        claimed, cancelled = at_once(*calls) if turn % 2 else at_once(*calls[::-1])[::-1]
        now = stage.read(comparison)["status"]
        if claimed.status_code == 200:
            assert (told([cancelled]), now) == ({(409, "VERSION_CONFLICT"): 1}, "running")
            assert cancelled.json()["current_version"] == 2
        else:
            assert told([claimed, cancelled]) == {(409, "COMPARISON_ENDED"): 1, (200, None): 1}
            assert now == "cancelled"
        if now == "running":
            end(stage, comparison["id"])


def test_a_claim_and_a_change_of_its_target_come_one_after_the_other(stage, through, rounds):
    version = 1
    for _ in rounds:
        comparison = stage.create()
        claimed, _closed = at_once(
            partial(claim_of, stage, comparison, through(stage.consumer, 1)),
            partial(close_route, stage, version=version),
        )
        now = stage.read(comparison)
        if claimed.status_code == 200:
            assert now["status"] == "running"
            end(stage, comparison["id"])
        else:
            assert told([claimed]) == {(409, "COMPARISON_TARGET_CHANGED"): 1}
            assert (now["status"], now["error_code"]) == ("interrupted", "COMPARISON_TARGET_CHANGED")
        close_route(stage, version=version + 1, how="activate")
        version += 2


def test_progress_and_expiry_come_one_after_the_other(stage, through, rounds):
    """The lease ends at a moment that nobody chose; whoever reads at the same time interrupts, or does not."""
    rng = random.Random(1)
    outcomes: Counter[int] = Counter()
    for turn in range(3 * len(rounds)):
        comparison, claim = stage.claimed()
        expire(stage, comparison["id"], after=timedelta(milliseconds=rng.uniform(0, 20)))
        answer, *reads = at_once(
            partial(progress, stage, comparison, claim, through(stage.consumer, turn)),
            *[partial(through(stage.operator, n).get, f"{PATH}/{comparison['id']}") for n in range(1, 4)],
        )
        now = stage.read(comparison)
        if answer.status_code == 200:
            assert now["status"] == "running"
            assert {read.json()["status"] for read in reads} == {"running"}, "a renewed lease was never interrupted"
            end(stage, comparison["id"])
        else:
            assert told([answer]) == {(409, "COMPARISON_CLAIM_EXPIRED"): 1}
            assert (now["status"], now["error_code"]) == ("interrupted", "COMPARISON_CLAIM_EXPIRED")
            assert progress(stage, comparison, claim).json()["code"] == "COMPARISON_CLAIM_EXPIRED"
        assert events(stage, comparison["id"]).count("comparison.interrupt") == (answer.status_code == 409)
        outcomes[answer.status_code] += 1
    assert set(outcomes) <= {200, 409}


# Ends.


def publish(stage: Stage, comparison: Any, result: dict[str, Any], caller: Caller | None = None) -> Response:
    return stage.call(comparison, "result", caller=caller, **result)


def test_a_cancel_and_a_result_come_one_after_the_other(stage, through, rounds):
    for turn in rounds:
        comparison, claim = stage.claimed()
        calls = [
            partial(publish, stage, comparison, stage.result(claim), through(stage.consumer, 1)),
            partial(cancel, stage, comparison, 2),
        ]
        result, cancelled = at_once(*calls) if turn % 2 else at_once(*calls[::-1])[::-1]
        now = stage.read(comparison)["status"]
        if result.status_code == 200:
            assert (told([cancelled]), now) == ({(409, "COMPARISON_ENDED"): 1}, "completed")
            assert published(stage, comparison["id"]) == (2, 6, 1)
        else:
            assert told([result, cancelled]) == {(409, "COMPARISON_CANCEL_REQUESTED"): 1, (200, None): 1}
            assert now == "cancel_requested"
            assert published(stage, comparison["id"]) == (0, 0, 0)
            assert finish(stage, comparison, claim, outcome="cancelled").status_code == 200


def test_of_two_different_results_one_is_published(stage, through, rounds):
    for _ in rounds:
        comparison, claim = stage.claimed()
        one = stage.result(claim)
        other = stage.result(claim, candidate=stage.leg(case_0={"ranked_results": []}))
        answers = at_once(
            partial(publish, stage, comparison, one, through(stage.consumer, 1)),
            partial(publish, stage, comparison, other, through(stage.consumer, 2)),
        )
        assert told(answers) == {(200, None): 1, (409, "COMPARISON_ENDED"): 1}
        assert published(stage, comparison["id"]) == (2, 6, 1)
        [kept] = [answer.json() for answer in answers if answer.status_code == 200]
        assert stage.read(comparison) == kept
        won = answers[0].status_code == 200
        assert (kept["evaluation_summary"]["metric_deltas"]["ndcg"]["candidate"] == 1.0) is won


def test_two_different_results_with_the_same_requests_are_one(stage, through, rounds):
    for _ in rounds:
        comparison, claim = stage.claimed()
        result = stage.result(claim)
        other = {**result, "consumer_revision_sha256": "0" * 64}
        answers = at_once(
            partial(publish, stage, comparison, result, through(stage.consumer, 1)),
            partial(publish, stage, comparison, other, through(stage.consumer, 2)),
        )
        assert told(answers) == {(200, None): 1, (409, "COMPARISON_ENDED"): 1}
        assert published(stage, comparison["id"]) == (2, 6, 1)


def test_equal_results_are_one_and_all_are_answered_alike(stage, through, rounds):
    for _ in rounds:
        comparison, claim = stage.claimed()
        result = stage.result(claim)
        answers = at_once(*[partial(publish, stage, comparison, result, through(stage.consumer, n)) for n in range(4)])
        assert told(answers) == {(200, None): 4}
        assert all(answer.json() == answers[0].json() for answer in answers)
        assert published(stage, comparison["id"]) == (2, 6, 1)
        assert events(stage, comparison["id"]).count("comparison.complete") == 1


def test_a_result_and_a_failure_come_one_after_the_other(stage, through, rounds):
    for _ in rounds:
        comparison, claim = stage.claimed()
        answers = at_once(
            partial(publish, stage, comparison, stage.result(claim), through(stage.consumer, 1)),
            partial(finish, stage, comparison, claim, error_code="OUT_OF_MEMORY"),
        )
        assert told(answers) == {(200, None): 1, (409, "COMPARISON_ENDED"): 1}
        is_completed = answers[0].status_code == 200
        assert stage.read(comparison)["status"] == ("completed" if is_completed else "failed")
        assert published(stage, comparison["id"]) == ((2, 6, 1) if is_completed else (0, 0, 0))


def test_two_projects_neither_wait_for_each_other_nor_mix(stage, through, rounds):
    other = make_stage(stage.asked, slug="other")
    for _ in rounds:
        pairs = [(each, *each.claimed()) for each in (stage, other)]
        answers = at_once(*[
            partial(publish, each, comparison, each.result(claim), through(each.consumer, n))
            for n, (each, comparison, claim) in enumerate(pairs)
        ])  # fmt: skip
        assert told(answers) == {(200, None): 2}
        for each, comparison, _claim in pairs:
            assert published(each, comparison["id"]) == (2, 6, 1)
    [[mine, my_claim], [_theirs, their_claim]] = [each.claimed() for each in (stage, other)]
    stolen = {
        **stage.result(my_claim),
        "current_gateway_requests": other.result(their_claim)["current_gateway_requests"],
    }
    answer = publish(stage, mine, stolen)
    assert told([answer]) == {(422, "EVIDENCE_UNKNOWN"): 1}


# Between the look at a result and its commit: the metrics are computed meanwhile, and nothing is locked.


@pytest.fixture
def meanwhile(monkeypatch) -> Callable[[Callable[[], Any]], None]:
    """Let something happen once, after a result has been looked at and before its row is locked."""

    def plan(act: Callable[[], Any]) -> None:
        real = publication._completes

        def decide_and_wait(before, verdict):
            monkeypatch.setattr(publication, "_completes", real)
            act()
            return real(before, verdict)

        monkeypatch.setattr(publication, "_completes", decide_and_wait)

    return plan


def test_a_result_whose_claim_expires_meanwhile_is_not_published(stage, meanwhile):
    comparison, claim = stage.claimed()
    result = stage.result(claim)
    meanwhile(lambda: expire(stage, comparison["id"]))
    assert told([publish(stage, comparison, result)]) == {(409, "COMPARISON_CLAIM_EXPIRED"): 1}
    assert published(stage, comparison["id"]) == (0, 0, 0)


def test_a_result_that_an_operator_cancels_meanwhile_is_not_published(stage, meanwhile):
    comparison, claim = stage.claimed()
    result = stage.result(claim)
    meanwhile(lambda: cancel(stage, comparison, 2))
    assert told([publish(stage, comparison, result)]) == {(409, "COMPARISON_CANCEL_REQUESTED"): 1}
    assert published(stage, comparison["id"]) == (0, 0, 0)


def test_a_result_whose_target_changes_meanwhile_interrupts(stage, meanwhile):
    comparison, claim = stage.claimed()
    result = stage.result(claim)
    meanwhile(lambda: close_route(stage))
    assert told([publish(stage, comparison, result)]) == {(409, "COMPARISON_TARGET_CHANGED"): 1}
    assert stage.read(comparison)["error_code"] == "COMPARISON_TARGET_CHANGED"
    assert published(stage, comparison["id"]) == (0, 0, 0)


def test_a_result_whose_target_changes_back_meanwhile_is_looked_at_again_and_published(stage, meanwhile):
    comparison, claim = stage.claimed()
    result = stage.result(claim)
    close_route(stage)
    meanwhile(lambda: close_route(stage, version=2, how="activate"))
    assert told([publish(stage, comparison, result)]) == {(200, None): 1}
    assert published(stage, comparison["id"]) == (2, 6, 1)


@pytest.mark.parametrize("is_equal", [True, False], ids=["the same", "another"])
def test_a_result_that_comes_after_one_that_came_meanwhile_adds_nothing(stage, meanwhile, is_equal):
    comparison, claim = stage.claimed()
    result = stage.result(claim)
    first = result if is_equal else {**result, "consumer_revision_sha256": "0" * 64}
    meanwhile(lambda: publish(stage, comparison, first))
    expected = {(200, None): 1} if is_equal else {(409, "COMPARISON_ENDED"): 1}
    assert told([publish(stage, comparison, result)]) == expected
    assert published(stage, comparison["id"]) == (2, 6, 1)
    assert stage.read(comparison)["consumer_revision_sha256"] == (REVISION if is_equal else "0" * 64)


def test_a_result_whose_requests_are_pruned_meanwhile_names_requests_that_nobody_knows(stage, meanwhile):
    comparison, claim = stage.claimed()
    result = stage.result(claim)
    plan = pruning.count(stage.database, older_than=timedelta(0))
    assert plan.deleted == 6
    meanwhile(lambda: pruning.prune(stage.database, plan, on_rows=lambda _count: None))
    assert told([publish(stage, comparison, result)]) == {(422, "EVIDENCE_UNKNOWN"): 1}
    assert told([publish(stage, comparison, result)]) == {(422, "EVIDENCE_UNKNOWN"): 1}
    assert stage.read(comparison)["status"] == "running"
    assert told([publish(stage, comparison, stage.result(claim))]) == {(200, None): 1}


def test_prune_and_a_result_come_one_after_the_other(stage, through, rounds):
    for _ in rounds:
        comparison, claim = stage.claimed()
        result = stage.result(claim)
        plan = pruning.count(stage.database, older_than=timedelta(0))
        answer, pruned = at_once(
            partial(publish, stage, comparison, result, through(stage.consumer, 1)),
            partial(pruning.prune, stage.database, plan, on_rows=lambda _count: None),
        )
        if answer.status_code == 200:
            assert pruned == 0
            assert published(stage, comparison["id"]) == (2, 6, 1)
        else:
            assert told([answer]) == {(422, "EVIDENCE_UNKNOWN"): 1}
            assert pruned == 6
            end(stage, comparison["id"])


def test_prune_waits_for_a_result_that_is_being_committed_and_spares_its_evidence(on_postgresql, monkeypatch):
    stage = on_postgresql
    comparison, claim = stage.claimed()
    result = stage.result(claim)
    plan = pruning.count(stage.database, older_than=timedelta(0))
    real = store.insert_published

    def insert_and_let_prune_wait(connection, published):
        real(connection, published)
        prune = threads.submit(pruning.prune, stage.database, plan, on_rows=lambda _count: None)
        pruned.append(prune)
        wait_until_one_waits_for_a_lock(stage.database)

    pruned: list[Any] = []
    monkeypatch.setattr(store, "insert_published", insert_and_let_prune_wait)
    with ThreadPoolExecutor(1) as threads:
        assert told([publish(stage, comparison, result)]) == {(200, None): 1}
        assert pruned[0].result(30) == 0
    assert published(stage, comparison["id"]) == (2, 6, 1)


def wait_until_one_waits_for_a_lock(database: Database) -> None:
    ends = time.monotonic() + 30
    query = text("SELECT count(*) FROM pg_locks WHERE NOT granted")
    while True:
        with database.read() as connection:
            if connection.scalar(query):
                return
        assert time.monotonic() < ends, "nobody waits for a lock"
        time.sleep(0.01)  # The pause only spares the machine; the lock above is what is waited for.
