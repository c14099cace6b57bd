"""Transactions, limits and errors of both databases."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
import threading
import uuid
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from sqlalchemy import DateTime, Index, UniqueConstraint, select, text
from sqlalchemy.exc import StatementError
from tests.postgres import Cluster
from tests.store.rows import NOW, add_event, add_project, events

from steelyard.hub.db import migrate, tables
from steelyard.hub.db.database import Database, Limits
from steelyard.hub.db.errors import (
    ConstraintViolated,
    LineageForeign,
    StoreBusy,
    StoreCorrupt,
    StoreError,
    StoreFull,
    StoreMissing,
    StoreReadOnly,
    StoreUnavailable,
    UniqueViolated,
)
from steelyard.hub.db.types import UtcTime

if TYPE_CHECKING:
    from sqlalchemy import Insert

QUICK = Limits(pool_size=2, wait_s=0.2, statement_s=0.2, connect_s=2)


class Stop(Exception):
    """Leaves a block."""


@pytest.fixture
def hurried(database_url):
    database = Database(database_url, limits=QUICK)
    yield database
    database.close()


@pytest.fixture
def file_database(sqlite_databases):
    with sqlite_databases.fresh() as url:
        database = Database(url, limits=QUICK)
        yield database
        database.close()


@pytest.fixture
def server_database(postgresql_databases):
    with postgresql_databases.fresh() as url:
        database = Database(url, limits=QUICK)
        yield database
        database.close()


def test_what_a_block_writes_is_committed_together(database):
    with database.write() as connection:
        add_event(connection, "a")
        add_event(connection, "b")
    assert events(database) == ["a", "b"]


def test_a_block_that_raises_leaves_nothing(database):
    def stop_halfway() -> None:
        with database.write() as connection:
            add_event(connection, "a")
            raise Stop

    with pytest.raises(Stop):
        stop_halfway()
    assert events(database) == []


def test_a_read_cannot_write(database):
    with pytest.raises(StoreReadOnly), database.read() as connection:
        add_event(connection, "a")
    assert events(database) == []


def test_a_read_sees_one_state_of_the_database(database):
    with database.read() as reading:
        before = reading.execute(select(tables.audit_events)).all()
        with database.write() as connection:
            add_event(connection, "meanwhile")
        assert reading.execute(select(tables.audit_events)).all() == before


def test_threads_that_read_and_then_write_never_find_the_database_locked(database):
    def work(number: int) -> None:
        for turn in range(25):
            with database.write() as connection:
                connection.execute(select(tables.audit_events.c.id).limit(1)).all()
                add_event(connection, f"{number}-{turn}")

    with ThreadPoolExecutor(8) as threads:
        list(threads.map(work, range(8)))
    assert len(set(events(database))) == 8 * 25


def test_processes_that_read_and_then_write_never_find_the_database_locked(database, database_url):
    command = [sys.executable, "-m", "tests.store.rows", "write_some", database_url]
    running = [
        subprocess.Popen([*command, str(number), "40"], stderr=subprocess.PIPE, text=True) for number in range(4)
    ]
    assert [process.communicate()[1] for process in running] == [""] * 4
    assert len(set(events(database))) == 4 * 40


def test_a_writer_that_waits_too_long_for_another_process_is_told_that_the_database_is_busy(hurried, database):
    with database.write() as connection:
        connection.execute(tables.projects.delete())
        add_project(connection)
        if database.is_postgresql:
            connection.execute(text("LOCK TABLE projects"))
        with pytest.raises(StoreBusy), hurried.write() as other:
            add_project(other, "other")


def test_a_thread_that_waits_too_long_for_this_process_is_told_that_the_database_is_busy(file_database):
    with file_database.write(), pytest.raises(StoreBusy):  # noqa: SIM117  # The inner block is the second thread's.
        with file_database.write():
            pass


def test_more_readers_than_connections_are_told_that_the_database_is_busy(hurried):
    with hurried.read() as one, hurried.read() as two:
        one.execute(text("SELECT 1"))
        two.execute(text("SELECT 1"))
        with pytest.raises(StoreBusy), hurried.read() as three:
            three.execute(text("SELECT 1"))
    with hurried.read() as again:
        again.execute(text("SELECT 1"))


def test_a_statement_that_takes_too_long_is_ended(server_database):
    with pytest.raises(StoreBusy), server_database.read() as connection:
        connection.execute(text("SELECT pg_sleep(30)"))


def test_a_statement_may_be_given_all_the_time_it_takes(server_database):
    database = Database(server_database.url, limits=Limits(statement_s=0))
    with database.read() as connection:
        assert connection.scalar(text("SHOW statement_timeout")) == "0"
    database.close()


def test_a_deadlock_ends_one_of_the_two(server_database, postgresql_databases):
    database = Database(server_database.url, limits=Limits(wait_s=30))
    with database.write() as connection:
        for slug in ("a", "b"):
            add_project(connection, slug)
    barrier = threading.Barrier(2)

    def rename(slugs: tuple[str, str]) -> str:
        try:
            with database.write() as connection:
                for slug in slugs:
                    connection.execute(tables.projects.update().where(tables.projects.c.slug == slug).values(name="x"))
                    if slug == slugs[0]:
                        barrier.wait(10)
        except StoreBusy as error:
            return error.code
        return "done"

    with ThreadPoolExecutor(2) as threads:
        assert sorted(threads.map(rename, [("a", "b"), ("b", "a")])) == ["done", "store_busy"]
    database.close()


UNIQUE_RULES = sorted(
    str(rule.name)
    for table in tables.metadata.tables.values()
    for rule in (*table.constraints, *table.indexes)
    if isinstance(rule, UniqueConstraint) or (isinstance(rule, Index) and rule.unique)
)


def test_there_are_rules_to_violate():
    assert "uq_projects_slug" in UNIQUE_RULES
    assert len(set(UNIQUE_RULES)) == len(UNIQUE_RULES) > 10


@pytest.fixture
def shop(database) -> uuid.UUID:
    """A project with a suite."""
    with database.write() as connection:
        project = add_project(connection)
        connection.execute(suite_of(project))
    return project


def suite_of(project: uuid.UUID) -> Insert:
    return tables.suites.insert().values(id=uuid.uuid4(), project_id=project, slug="s", name="s", created_at=NOW)


def test_a_violated_rule_of_one_column_is_known_by_its_name(database, shop):
    with pytest.raises(UniqueViolated) as caught, database.write() as connection:
        add_project(connection)
    assert caught.value.constraint == "uq_projects_slug"


def test_a_violated_rule_of_several_columns_is_known_by_its_name(database, shop):
    with pytest.raises(UniqueViolated) as caught, database.write() as connection:
        connection.execute(suite_of(shop))
    assert caught.value.constraint == "uq_suites_project_id_slug"


def test_a_primary_key_that_is_taken_is_known_by_its_name(database, shop):
    with pytest.raises(UniqueViolated) as caught, database.write() as connection:
        connection.execute(tables.projects.insert().values(id=shop, slug="other", name="x", created_at=NOW))
    assert caught.value.constraint == "pk_projects"


def test_after_a_violation_in_a_savepoint_the_block_goes_on(database):
    with database.write() as connection:
        add_project(connection)
        with pytest.raises(UniqueViolated), connection.begin_nested():
            add_project(connection)
        add_event(connection, "after")
    assert events(database) == ["after"]


@pytest.mark.parametrize(
    "values",
    [{"role": "king", "service_client_id": None}, {"role": "client", "service_client_id": None}],
)
def test_a_broken_check_is_no_unique_violation(database, values):
    with pytest.raises(ConstraintViolated) as caught, database.write() as connection:
        connection.execute(
            tables.credentials.insert().values(
                id=uuid.uuid4(), public_id="p", name="n", secret_sha256="0" * 64, created_at=NOW, **values
            )
        )
    assert not isinstance(caught.value, UniqueViolated)


def test_a_row_that_points_nowhere_is_refused(database):
    with pytest.raises(ConstraintViolated), database.write() as connection:
        connection.execute(suite_of(uuid.uuid4()))


def test_times_come_back_in_utc_to_the_microsecond(database):
    moment = datetime(2026, 1, 2, 3, 4, 5, 678901, tzinfo=timezone(timedelta(hours=5, minutes=30)))
    with database.write() as connection:
        connection.execute(
            tables.projects.insert().values(id=uuid.uuid4(), slug="s", name="s", created_at=moment)
        )  # fmt: skip
    with database.read() as connection:
        stored = connection.scalar(select(tables.projects.c.created_at))
    assert stored == moment
    assert stored.tzinfo == UTC


def test_a_time_without_a_zone_is_refused_and_nothing_is_written(database):
    naive = datetime(2026, 1, 2, 3, 4, 5)  # noqa: DTZ001  # What must not get in.
    row = {"id": uuid.uuid4(), "slug": "s", "name": "s", "created_at": naive}
    with pytest.raises(StatementError) as caught, database.write() as connection:
        connection.execute(tables.projects.insert().values(row))
    assert str(caught.value.orig) == "A time without a zone cannot be stored"
    with database.read() as connection:
        assert connection.execute(select(tables.projects)).all() == []


def test_every_column_of_a_time_refuses_what_has_no_zone():
    columns = [column for table in tables.metadata.tables.values() for column in table.columns]
    assert [str(column) for column in columns if isinstance(column.type, DateTime)] == []
    assert len([column for column in columns if isinstance(column.type, UtcTime)]) > 10


def test_postgresqls_own_clock_decides_whatever_the_processs_says(server_database):
    wrong = Database(server_database.url, clock=lambda: NOW - timedelta(days=3650))
    with wrong.read() as connection:
        told = connection.scalar(text("SELECT clock_timestamp()"))
        assert told <= wrong.now(connection) < told + timedelta(minutes=1)
    wrong.close()


def test_the_time_that_decides_moves_on_inside_a_transaction(server_database):
    with server_database.write() as connection:
        first = server_database.now(connection)
        assert server_database.now(connection) > first
        assert first.tzinfo == UTC


def test_the_given_clock_decides_beside_sqlite(sqlite_databases):
    with sqlite_databases.fresh() as url:
        database = Database(url, clock=lambda: NOW)
        with database.read() as connection:
            assert database.now(connection) == NOW
        database.close()


def test_a_file_that_is_not_there_is_missing_and_is_not_made(tmp_path):
    with pytest.raises(StoreMissing), Database(f"sqlite:///{tmp_path}/no/hub.db").read():
        pass
    assert list(tmp_path.iterdir()) == []


def test_a_database_that_the_server_has_not_is_unavailable(postgres):
    with pytest.raises(StoreUnavailable) as caught, Database(postgres.url("no_such")).read():
        pass
    assert "no_such" not in str(caught.value)
    assert 'database "no_such" does not exist' in str(caught.value.__cause__)


def test_a_server_that_does_not_answer_is_unavailable_and_the_message_has_no_secret(tmp_path):
    url = f"postgresql://somebody:s3cret@/hub?host={tmp_path}&password=t0psecret"
    database = Database(url)
    with pytest.raises(StoreUnavailable) as caught, database.read():
        pass
    told = f"{caught.value} {database.shown} {caught.value.__cause__}"
    assert "s3cret" not in told
    assert "t0psecret" not in told


def test_a_database_comes_back_with_its_server(postgres):
    cluster = Cluster()
    try:
        database = Database(cluster.create("hub"), limits=Limits(connect_s=2))
        with database.read() as connection:
            assert connection.scalar(text("SELECT 1")) == 1
        cluster.kill()
        with pytest.raises(StoreUnavailable), database.read() as connection:
            connection.scalar(text("SELECT 1"))
        cluster.start()
        with database.read() as connection:
            assert connection.scalar(text("SELECT 1")) == 1
        database.close()
    finally:
        cluster.stop()


def test_a_connection_that_the_server_ends_in_a_block_makes_the_database_unavailable(server_database):
    with pytest.raises(StoreUnavailable), server_database.write() as connection:  # noqa: PT012  # Two blocks of one.
        number = connection.scalar(text("SELECT pg_backend_pid()"))
        with server_database.write() as other:
            other.execute(text("SELECT pg_terminate_backend(:number)"), {"number": number})
        add_event(connection, "lost")
    with server_database.write() as connection:
        add_event(connection, "kept")
    assert events(server_database) == ["kept"]


def test_a_file_that_is_no_database_is_damaged(tmp_path):
    path = tmp_path / "hub.db"
    path.write_bytes(b"no database at all, whatever its name says" * 100)
    with pytest.raises(StoreCorrupt), Database(f"sqlite:///{path}").read() as connection:
        connection.scalar(text("SELECT count(*) FROM sqlite_schema"))
    assert path.read_bytes().startswith(b"no database")


@pytest.mark.parametrize("make", [Path.mkdir, os.mkfifo])
def test_what_is_no_file_is_unavailable_in_a_sentence(tmp_path, make):
    make(tmp_path / "hub.db")
    with pytest.raises(StoreUnavailable, match="a folder or a device"), Database(f"sqlite:///{tmp_path}/hub.db").read():
        pass


def test_a_name_that_no_file_can_have_is_unavailable_in_a_sentence(tmp_path):
    database = Database(f"sqlite:///{tmp_path}/{'a' * 300}.db")
    with pytest.raises(StoreUnavailable, match="File name too long"):
        database.make_file()
    with pytest.raises(StoreUnavailable, match="File name too long"), database.read():
        pass


def test_a_database_of_another_program_is_not_changed_by_looking_at_it(tmp_path):
    path = tmp_path / "other.db"
    with closing(sqlite3.connect(path)) as other:
        other.execute("CREATE TABLE others (id INTEGER)")
    before = path.read_bytes()
    database = Database(f"sqlite:///{path}")
    with pytest.raises(LineageForeign):
        migrate.upgrade(database)
    database.close()
    assert path.read_bytes() == before


def test_a_file_with_damaged_pages_is_damaged(file_database):
    with file_database.write() as connection:
        for number in range(500):
            add_event(connection, f"{'long ' * 10}{number}"[:64])
    file_database.close()
    content = bytearray(file_database.path.read_bytes())
    content[8192:] = b"\xff" * (len(content) - 8192)
    file_database.path.write_bytes(bytes(content))
    with pytest.raises(StoreCorrupt), file_database.read() as connection:
        connection.execute(select(tables.audit_events)).all()


def test_a_database_that_may_grow_no_more_is_full_and_has_lost_nothing(file_database):
    def fill() -> None:
        with file_database.write() as connection:
            pages = connection.scalar(text("PRAGMA page_count"))
            connection.execute(text(f"PRAGMA max_page_count = {pages + 1}"))
            for number in range(5000):
                add_event(connection, str(number))

    with pytest.raises(StoreFull):
        fill()
    assert events(file_database) == []


def test_a_server_whose_transactions_are_read_only_is_read_only(server_database, postgres):
    name = str(server_database.url.database)
    postgres.execute("ALTER DATABASE {} SET default_transaction_read_only = on", name)
    with pytest.raises(StoreReadOnly), server_database.write() as connection:
        add_event(connection, "a")


def test_a_new_database_is_for_its_own_account_alone(tmp_path):
    database = Database(f"sqlite:///{tmp_path}/var/hub.db")
    database.make_file()
    assert (tmp_path / "var").stat().st_mode & 0o777 == 0o700
    assert (tmp_path / "var" / "hub.db").stat().st_mode & 0o777 == 0o600


def test_a_file_name_may_have_any_character(tmp_path):
    database = Database(f"sqlite:///{tmp_path}/a %23 %25 b ü.db")
    database.make_file()
    with database.read() as connection:
        assert connection.scalar(text("SELECT 1")) == 1
    assert [path.name for path in tmp_path.iterdir() if path.suffix == ".db"] == ["a # % b ü.db"]
    database.close()


def test_sqlite_waits_for_the_disk_and_keeps_its_log(file_database):
    with file_database.write() as connection:
        assert connection.scalar(text("PRAGMA synchronous")) == 2  # FULL
        assert connection.scalar(text("PRAGMA journal_mode")) == "wal"
        assert connection.scalar(text("PRAGMA foreign_keys")) == 1


def test_every_error_of_the_store_has_a_sentence_and_a_code_of_its_own():
    def below(kind: type[StoreError]) -> list[type[StoreError]]:
        return [kind, *(found for child in kind.__subclasses__() for found in below(child))]

    kinds = below(StoreError)
    assert len({kind.code for kind in kinds}) == len(kinds) > 15
    assert all(str(kind()).endswith(".") for kind in kinds)
    tree = Path(sys.modules[StoreError.__module__].__file__ or "").read_text(encoding="utf-8").split('"""')[1]
    assert [kind.__name__ for kind in kinds if kind.__name__ not in tree] == []
