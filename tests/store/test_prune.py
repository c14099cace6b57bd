"""Pruning the request log."""

from __future__ import annotations

import threading
from datetime import timedelta

import pytest
from sqlalchemy import Column, ForeignKey, MetaData, Table, event, func, select
from tests.store.rows import add_catalogue, add_event, add_requests

from steelyard.hub.db import prune as pruning
from steelyard.hub.db import tables
from steelyard.hub.db.database import Database, Limits
from steelyard.hub.db.errors import StoreBusy
from steelyard.hub.db.types import RowId

DAY = timedelta(days=1)
# Stands for what keeps evidence; it is no table of the product's.
evidence = Table(
    "evidence_of_the_tests",
    MetaData(),
    Column("request_row_id", RowId, ForeignKey(tables.gateway_requests.c.id), primary_key=True),
)


def ids(database):
    with database.read() as connection:
        return list(connection.scalars(select(tables.gateway_requests.c.id).order_by(tables.gateway_requests.c.id)))


def run(database, *, days=30):
    plan = pruning.count(database, older_than=days * DAY)
    batches: list[int] = []
    deleted = pruning.prune(database, plan, on_rows=batches.append)
    assert sum(batches) == deleted
    return plan, deleted, batches


def trail(database):
    """Return what the audit trail tells of prunes, oldest first, with their counts."""
    with database.read() as connection:
        found = connection.execute(select(tables.audit_events).order_by(tables.audit_events.c.id)).all()
    return [(told.action, told.after.get("deleted", told.after.get("planned"))) for told in found]


@pytest.fixture
def logged(database):
    """2500 requests older than 30 days, then 10 that are not."""
    with database.write() as connection:
        names = add_catalogue(connection)
        now = database.now(connection)
        old = [now - 31 * DAY - timedelta(seconds=number) for number in range(2500)]
        add_requests(connection, names, [*old, *[now - 29 * DAY] * 10])
    return database


@pytest.fixture
def kept(logged, monkeypatch):
    """The row ids of some old requests and of a young one, which are evidence."""
    chosen = [*ids(logged)[:1500:100], ids(logged)[-1]]
    with logged.alter() as connection:
        evidence.metadata.create_all(connection, tables=[evidence])
        connection.execute(evidence.insert(), [{"request_row_id": number} for number in chosen])
    monkeypatch.setattr(pruning, "EVIDENCE", [select(evidence.c.request_row_id)])
    return chosen


def test_old_rows_go_in_bounded_batches_and_young_ones_stay(logged):
    young = ids(logged)[-10:]
    plan, deleted, batches = run(logged)
    assert (plan.deleted, plan.kept, deleted) == (2500, 0, 2500)
    assert batches == [1000, 1000, 500]
    assert ids(logged) == young
    assert run(logged)[1:] == (0, [])


def test_a_call_without_an_end_goes_only_when_it_must_have_ended(database):
    with database.write() as connection:
        names = add_catalogue(connection)
        now = database.now(connection)
        add_requests(connection, names, [now - timedelta(minutes=30), now - timedelta(hours=3)])
        connection.execute(tables.gateway_requests.update().values(status="started", completed_at=None))
    [under_way, _killed] = ids(database)
    plan = pruning.count(database, older_than=timedelta(minutes=1))
    assert pruning.prune(database, plan, on_rows=lambda _count: None) == plan.deleted == 1
    assert ids(database) == [under_way]


def test_counting_deletes_nothing(logged):
    before = ids(logged)
    assert pruning.count(logged, older_than=30 * DAY).deleted == 2500
    assert ids(logged) == before


def test_evidence_stays_however_old_it_is(logged, kept):
    plan, deleted, _batches = run(logged)
    assert (plan.deleted, plan.kept, deleted) == (2485, 15, 2485)
    assert set(ids(logged)) >= set(kept)
    assert len(ids(logged)) == 15 + 10


def test_a_row_that_becomes_evidence_after_the_count_stays(logged, kept):
    plan = pruning.count(logged, older_than=30 * DAY)
    late = ids(logged)[2]
    with logged.write() as connection:
        connection.execute(evidence.insert().values(request_row_id=late))
    assert pruning.prune(logged, plan, on_rows=lambda _count: None) == 2484
    assert late in ids(logged)


def test_a_row_that_is_about_to_go_cannot_become_evidence(postgresql_databases, monkeypatch):
    """Only PostgreSQL has two writers at once: between a batch's choice and its deletion another may come."""
    with postgresql_databases.fresh() as url:
        database, other = Database(url), Database(url, limits=Limits(wait_s=0.2))
        with database.alter() as connection:
            names = add_catalogue(connection)
            add_requests(connection, names, [database.now(connection) - 31 * DAY] * 3)
            evidence.metadata.create_all(connection, tables=[evidence])
        monkeypatch.setattr(pruning, "EVIDENCE", [select(evidence.c.request_row_id)])
        late = ids(database)[1]
        refused = []

        def add(_connection, _cursor, statement, *_rest):
            if statement.startswith("DELETE"):
                with pytest.raises(StoreBusy), other.write() as connection:
                    connection.execute(evidence.insert().values(request_row_id=late))
                refused.append(late)

        event.listen(database._writer, "before_cursor_execute", add)
        plan = pruning.count(database, older_than=30 * DAY)
        assert pruning.prune(database, plan, on_rows=lambda _count: None) == 3
        assert refused == [late]
        database.close()
        other.close()


def test_others_write_while_rows_go(logged):
    is_over = threading.Event()
    written = []

    def write() -> None:
        while not is_over.is_set():
            with logged.write() as connection:
                add_event(connection, "meanwhile")
            written.append(1)

    writer = threading.Thread(target=write)
    writer.start()
    seen: list[int] = []
    plan = pruning.count(logged, older_than=30 * DAY)
    pruning.prune(logged, plan, on_rows=lambda _count: seen.append(len(written)))
    is_over.set()
    writer.join()
    assert len(ids(logged)) == 10
    assert written


def test_an_interrupted_run_goes_on_where_it_stopped(logged):
    def interrupt(_count: int) -> None:
        raise KeyboardInterrupt

    plan = pruning.count(logged, older_than=30 * DAY)
    with pytest.raises(KeyboardInterrupt):
        pruning.prune(logged, plan, on_rows=interrupt)
    assert pruning.count(logged, older_than=30 * DAY).deleted == 1500
    assert trail(logged) == [("store.prune_begun", 2500)]
    run(logged)
    assert len(ids(logged)) == 10
    assert trail(logged)[1:] == [("store.prune_begun", 1500), ("store.pruned", 1500)]


def test_a_prune_is_in_the_audit_trail(logged):
    run(logged)
    assert trail(logged) == [("store.prune_begun", 2500), ("store.pruned", 2500)]
    with logged.read() as connection:
        assert connection.scalar(select(func.count()).select_from(tables.projects)) == 1


def test_a_prune_of_nothing_is_not(database):
    run(database)
    with database.read() as connection:
        assert connection.execute(select(tables.audit_events)).all() == []
