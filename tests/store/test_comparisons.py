"""The rules that the tables themselves keep for comparisons, and that upkeep never takes evidence away."""

from __future__ import annotations

import itertools
from contextlib import closing
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any
from uuid import UUID

import pytest
from sqlalchemy import delete, func, insert, select, text, update
from tests.comparing import PATH, make_stage
from tests.hub_api import Asked

from steelyard.hub.comparisons import store
from steelyard.hub.comparisons.domain import protocol
from steelyard.hub.db import migrate, tables
from steelyard.hub.db import prune as pruning
from steelyard.hub.db.check import check
from steelyard.hub.db.errors import ConstraintViolated, DowngradeRefused, UniqueViolated

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sqlalchemy import Table
    from tests.comparing import Stage


@pytest.fixture
def stage(database) -> Iterator[Stage]:
    with closing(Asked(database)) as asked:
        yield make_stage(asked)


@pytest.fixture
def published(stage) -> Any:
    """Give a completed comparison."""
    comparison, claim = stage.claimed()
    answer = stage.call(comparison, "result", **stage.result(claim))
    assert answer.status_code == 200, answer.text
    return answer.json()


def count(stage: Stage, table: Table) -> int:
    with stage.database.read() as connection:
        return connection.scalar(select(func.count()).select_from(table)) or 0


def change(stage: Stage, statement: Any) -> None:
    with stage.database.write() as connection:
        connection.execute(statement)


def only_row(stage: Stage) -> dict[str, Any]:
    """Return the only comparison's row, without its number."""
    with stage.database.read() as connection:
        row = connection.execute(select(tables.comparisons)).one()._asdict()
    return {name: value for name, value in row.items() if name != "number"}


BROKEN: dict[str, dict[str, Any]] = {
    "an unknown status": {"status": "done"},
    "an end of what is running": {"ended_at": func.current_timestamp()},
    "a completed one without an end": {"status": "completed", "consumer_revision_sha256": "0" * 64},
    "a completed one without its consumer's revision": {"status": "completed", "ended_at": func.current_timestamp()},
    "a result of one that failed": {
        "status": "failed", "ended_at": func.current_timestamp(), "consumer_revision_sha256": "0" * 64},
    "a claim without a token": {"claim_token_sha256": None},
    "a claim without a lease": {"lease_expires_at": None},
    "a claim without a deadline": {"deadline_at": None},
    "a lease without a claim": {"claimed_at": None},
}  # fmt: skip


@pytest.mark.parametrize("values", BROKEN.values(), ids=BROKEN)
def test_a_row_that_is_in_no_state_is_refused(stage, values):
    stage.claimed()
    with pytest.raises(ConstraintViolated):
        change(stage, update(tables.comparisons).values(**values))


@pytest.mark.parametrize("status", ["pending", "running", "cancel_requested"])
def test_a_binding_has_one_active_comparison_whatever_wrote_it(stage, status):
    comparison = stage.create()
    row = only_row(stage)
    stage.call(comparison, "cancel", caller=stage.operator, expected_version=1)
    fields = {**row, "status": status}
    if status != "pending":
        at = row["created_at"]
        fields |= {"claim_token_sha256": "0" * 64, "claimed_at": at, "lease_expires_at": at, "deadline_at": at}
    change(stage, insert(tables.comparisons).values(fields | {"id": UUID(int=1), "idempotency_key": "second-key"}))
    with pytest.raises(UniqueViolated):
        change(stage, insert(tables.comparisons).values(fields | {"id": UUID(int=2), "idempotency_key": "third-key"}))


def test_a_key_is_used_once_by_a_binding(stage):
    comparison = stage.create()
    stage.call(comparison, "cancel", caller=stage.operator, expected_version=1)
    row = only_row(stage)
    with pytest.raises(UniqueViolated):
        change(stage, insert(tables.comparisons).values(**{**row, "id": UUID(int=1)}))


def test_a_second_insert_of_an_active_one_leaves_the_transaction_usable(stage):
    stage.create()
    with stage.database.write() as connection:
        [found] = store.lock_active(connection)
        with pytest.raises(UniqueViolated):
            store.insert(connection, found)
        store.change(connection, protocol.restored(found, now=found.created_at))
    with stage.database.write() as connection:
        assert store.lock_active(connection) == []


def test_a_request_is_evidence_once_and_a_case_has_one(stage, published):
    with stage.database.read() as connection:
        one, other = connection.execute(select(tables.evaluation_evidence).limit(2)).all()
        unused = connection.scalar(select(func.max(tables.gateway_requests.c.id)))
    assert unused is not None
    taken = {"evaluation_run_id": other.evaluation_run_id, "case_id": other.case_id}
    for row in (one.gateway_request_id, unused):
        with pytest.raises(UniqueViolated):
            change(stage, insert(tables.evaluation_evidence).values(gateway_request_id=row, **taken))


def test_what_is_evidence_cannot_be_deleted_by_anything(stage, published):
    for table in (tables.gateway_requests, tables.evaluation_results, tables.evaluation_runs, tables.comparisons):
        with pytest.raises(ConstraintViolated):
            change(stage, delete(table))
    assert count(stage, tables.evaluation_evidence) == 6


@pytest.mark.parametrize("is_asked_to_stop", [False, True])
def test_what_has_expired_is_found_to_the_microsecond(stage, is_asked_to_stop):
    comparison, _claim = stage.claimed()
    if is_asked_to_stop:
        stage.call(comparison, "cancel", caller=stage.operator, expected_version=2)
    now = datetime(2027, 1, 1, tzinfo=UTC)
    for lease, deadline in itertools.product((-1, 0, 1), repeat=2):
        ends = [now + timedelta(microseconds=difference) for difference in (lease, deadline)]
        change(stage, update(tables.comparisons).values(lease_expires_at=ends[0], deadline_at=ends[1]))
        with stage.database.read() as connection:
            found = store.expired(connection, now=now)
        assert found == ([UUID(comparison["id"])] if min(lease, deadline) <= 0 else [])
    change(stage, update(tables.comparisons).values(status="failed", ended_at=now, lease_expires_at=now))
    with stage.database.read() as connection:
        assert store.expired(connection, now=now) == []


# Upkeep.


def test_prune_takes_every_old_request_but_evidence_and_the_report_still_names_them(stage, published):
    stage.evidence("current")
    before = stage.operator.get(f"{PATH}/{published['id']}/cases").json()
    plan = pruning.count(stage.database, older_than=timedelta(0))
    assert (plan.deleted, plan.kept) == (3, 6)
    assert pruning.prune(stage.database, plan, on_rows=lambda _count: None) == 3
    assert count(stage, tables.gateway_requests) == 6
    assert stage.operator.get(f"{PATH}/{published['id']}/cases").json() == before
    assert all(case[leg]["gateway_request_id"] for case in before["items"] for leg in ("current", "candidate"))
    assert stage.read(published) == published


def test_a_downgrade_is_refused_over_comparisons_alone(stage):
    stage.create()
    change(stage, delete(tables.audit_events))
    assert count(stage, tables.gateway_requests) == 0
    stage.database.close()
    with pytest.raises(DowngradeRefused, match="comparisons has 1 rows of history"):
        migrate.downgrade(stage.database, to=migrate.graph().revisions[0])
    assert count(stage, tables.comparisons) == 1
    migrate.require_current(stage.database)


def test_the_check_tells_evidence_whose_request_is_gone(sqlite_databases):
    from steelyard.hub.db.database import Database  # noqa: PLC0415

    with sqlite_databases.fresh() as url, closing(Database(url)) as database, closing(Asked(database)) as asked:
        stage = make_stage(asked)
        comparison, claim = stage.claimed()
        assert stage.call(comparison, "result", **stage.result(claim)).status_code == 200
        assert [finding for finding in check(database) if not finding.is_good] == []
        with database.alter() as connection:  # Which enforces no foreign keys.
            connection.execute(delete(tables.gateway_requests))
        [finding] = [finding for finding in check(database) if not finding.is_good]
        assert (finding.name, finding.answer.count("evaluation_evidence")) == ("foreign keys", 6)


@pytest.mark.parametrize(
    "statement",
    ["DROP INDEX uq_comparisons_active", "ALTER TABLE comparisons ADD COLUMN claim_token TEXT"],
)
def test_the_check_tells_changed_tables_of_comparisons(database, statement):
    with database.alter() as connection:
        connection.execute(text(statement))
    assert "schema" in [finding.name for finding in check(database) if not finding.is_good]
