"""A hub that is killed before or after any commit of a call leaves what the call found, or what it was to leave."""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest
from sqlalchemy import select, update
from tests.comparing import PATH, make_stage
from tests.store.killed_calls import Calls

from steelyard.hub.comparisons.service import interrupt_all
from steelyard.hub.db import tables
from steelyard.hub.db.check import check
from steelyard.hub.startup import open_database

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.comparing import Stage
    from tests.hub_api import Caller

    from steelyard.hub.db.database import Database


@dataclass(frozen=True)
class Call:
    """A call, and what it does to the comparison that is the newest afterwards."""

    method: str
    path: str
    body: Any
    is_operator: bool = False


@dataclass(frozen=True)
class Case:
    """A way to prepare a call; its status, the newest comparison's state before and after, and a repeat's status.

    *repeated* is the status of the same call once more after it was committed, and its code.
    """

    prepare: Callable[[Stage], Call]
    status: int
    before: str
    after: str
    repeated: tuple[int, str | None]


def create(stage: Stage) -> Call:
    return Call("POST", PATH, stage.body(), is_operator=True)


def create_over_an_expired_claim(stage: Stage) -> Call:
    stage.claimed()
    expire(stage)
    return create(stage)


def create_what_is_refused_over_an_expired_claim(stage: Stage) -> Call:
    call = create_over_an_expired_claim(stage)
    close_route(stage)
    return call


def claim(stage: Stage) -> Call:
    return Call("POST", f"{PATH}/{stage.create()['id']}/claim", None)


def claim_what_has_changed(stage: Stage) -> Call:
    call = claim(stage)
    close_route(stage)
    return call


def progress(stage: Stage) -> Call:
    comparison, claimed = stage.claimed()
    body = {"claim_token": claimed["claim_token"], "current_completed_cases": 1, "candidate_completed_cases": 1}
    return Call("POST", f"{PATH}/{comparison['id']}/progress", body)


def cancel_a_pending_one(stage: Stage) -> Call:
    return Call("POST", f"{PATH}/{stage.create()['id']}/cancel", {"expected_version": 1}, is_operator=True)


def cancel_a_running_one(stage: Stage) -> Call:
    comparison, _claim = stage.claimed()
    return Call("POST", f"{PATH}/{comparison['id']}/cancel", {"expected_version": 2}, is_operator=True)


def fail(stage: Stage) -> Call:
    comparison, claimed = stage.claimed()
    body = {"claim_token": claimed["claim_token"], "outcome": "failed", "error_code": "OUT_OF_MEMORY"}
    return Call("POST", f"{PATH}/{comparison['id']}/finish", body)


def acknowledge_a_cancel(stage: Stage) -> Call:
    comparison, claimed = stage.claimed()
    stage.operator.post(f"{PATH}/{comparison['id']}/cancel", expected_version=2)
    body = {"claim_token": claimed["claim_token"], "outcome": "cancelled"}
    return Call("POST", f"{PATH}/{comparison['id']}/finish", body)


def publish(stage: Stage) -> Call:
    comparison, claimed = stage.claimed()
    return Call("POST", f"{PATH}/{comparison['id']}/result", stage.result(claimed))


def publish_what_has_changed(stage: Stage) -> Call:
    call = publish(stage)
    close_route(stage)
    return call


def read_what_has_expired(stage: Stage) -> Call:
    comparison, _claim = stage.claimed()
    expire(stage)
    return Call("GET", f"{PATH}/{comparison['id']}", None, is_operator=True)


def expire(stage: Stage) -> None:
    with stage.database.write() as connection:
        active = update(tables.comparisons).where(tables.comparisons.c.ended_at.is_(None))
        connection.execute(active.values(lease_expires_at=stage.database.now(connection)))


def close_route(stage: Stage) -> None:
    path = f"/routes/{stage.ids['candidate_route_id']}"
    version = stage.operator.get(path).json()["version"]
    assert stage.operator.post(f"{path}/deactivate", expected_version=version).status_code == 200


CHANGED = "COMPARISON_TARGET_CHANGED"
CASES = [
    Case(create, 201, "interrupted", "pending", (200, None)),
    Case(create_over_an_expired_claim, 201, "running", "pending", (200, None)),
    Case(create_what_is_refused_over_an_expired_claim, 409, "running", "interrupted", (409, "NOT_ELIGIBLE")),
    Case(claim, 200, "pending", "running", (409, "COMPARISON_CLAIM_TAKEN")),
    Case(claim_what_has_changed, 409, "pending", "interrupted", (409, CHANGED)),
    Case(progress, 200, "running", "running", (200, None)),
    Case(cancel_a_pending_one, 200, "pending", "cancelled", (200, None)),
    Case(cancel_a_running_one, 200, "running", "cancel_requested", (200, None)),
    Case(fail, 200, "running", "failed", (200, None)),
    Case(acknowledge_a_cancel, 200, "cancel_requested", "cancelled", (200, None)),
    Case(publish, 200, "running", "completed", (200, None)),
    Case(publish_what_has_changed, 409, "running", "interrupted", (409, CHANGED)),
    Case(read_what_has_expired, 200, "running", "interrupted", (200, None)),
]


@pytest.fixture(scope="module")
def calls() -> Iterator[Calls]:
    with closing(Calls()) as calls:
        yield calls


def contents(database: Database) -> dict[str, list[str]]:
    """Return every row but the store's own books."""
    with database.read() as connection:
        return {
            name: sorted(repr(tuple(row)) for row in connection.execute(select(table)))
            for name, table in tables.metadata.tables.items()
            if not name.startswith("store_")
        }


def state(database: Database) -> str | None:
    """Return the newest comparison's state, having checked that what it has is whole."""
    with database.read() as connection:
        query = select(tables.comparisons).order_by(tables.comparisons.c.number.desc())
        found = connection.execute(query).all()
        runs = len(connection.execute(select(tables.evaluation_runs)).all())
        summaries = len(connection.execute(select(tables.evaluation_summaries)).all())
        evidence = len(connection.execute(select(tables.evaluation_evidence)).all())
        trail = select(tables.audit_events.c.id).where(tables.audit_events.c.subject_kind == "Comparison")
        assert len(connection.execute(trail).all()) == sum(row.version for row in found)
    completed = sum(row.status == "completed" for row in found)
    assert (runs, summaries, evidence) == (2 * completed, completed, 6 * completed)
    assert sum(row.ended_at is None for row in found) <= 1
    return found[0].status if found else None


def repeat(stage: Stage, call: Call) -> tuple[int, str | None]:
    caller: Caller = stage.operator if call.is_operator else stage.consumer
    answer = caller.get(call.path) if call.method == "GET" else caller.post(call.path, **(call.body or {}))
    return answer.status_code, answer.json().get("code")


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.prepare.__name__)
def test_a_call_killed_before_or_after_any_commit_leaves_all_or_nothing_and_can_be_made_again(
    database, database_url, calls, case
):
    from tests.hub_api import Asked  # noqa: PLC0415  # The engines' tests need no hub.

    open_database(database_url, upgrade=False).close()
    with closing(Asked(database)) as asked:
        stage = make_stage(asked)
        moments = run_whole(stage, calls, case)
        assert moments >= 2, "it commits something"
        for moment in range(moments):
            reset(stage)
            call = case.prepare(stage)
            before = contents(database)
            assert order(stage, calls, call, moment=moment) == {"moments": moment, "status": None}
            require_restarted(database)
            if moment == 0:
                assert contents(database) == before
            assert state(database) == (case.before if moment == 0 else case.after)
            assert repeat(stage, call) == ((case.status, code_of(case)) if moment == 0 else case.repeated)
            assert state(database) == case.after


def run_whole(stage: Stage, calls: Calls, case: Case) -> int:
    """Make the whole call, and return how many moments there are to be killed at."""
    made = order(stage, calls, case.prepare(stage), moment=None)
    assert made["status"] == case.status
    assert state(stage.database) == case.after
    return int(made["moments"])


def order(stage: Stage, calls: Calls, call: Call, *, moment: int | None) -> Any:
    """Let a process that has nothing in common with this one make the call, and tell how it went."""
    stage.database.close()
    secret = (stage.operator if call.is_operator else stage.consumer).secret
    url = stage.database.url.render_as_string(hide_password=False)
    return calls.make({**vars(call), "url": url, "secret": secret, "moment": moment})


def reset(stage: Stage) -> None:
    """End what is active and open what was closed, as before the first call."""
    with stage.database.write() as connection:
        interrupt_all(connection, stage.database.now(connection))
    path = f"/routes/{stage.ids['candidate_route_id']}"
    route = stage.operator.get(path).json()
    if not route["is_active"]:
        assert stage.operator.post(f"{path}/activate", expected_version=route["version"]).status_code == 200


def code_of(case: Case) -> str | None:
    return case.repeated[1] if case.status == 409 else None


def require_restarted(database: Database) -> None:
    """Start on the database that the kill left, which is sound and no restored one."""
    open_database(str(database.url.render_as_string(hide_password=False)), upgrade=False).close()
    with database.read() as connection:
        assert "store.restored" not in connection.scalars(select(tables.audit_events.c.action)).all()
    assert [finding for finding in check(database) if not finding.is_good] == []
