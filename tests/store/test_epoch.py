"""A restore is noticed without being told, and nothing else is taken for one."""

from __future__ import annotations

import shutil
import sqlite3
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

import psycopg
import pytest
from sqlalchemy import select, text
from tests.postgres import Cluster
from tests.store.rows import add_event, add_project, events

from steelyard.hub.db import epoch, sidecar, tables
from steelyard.hub.db.backup import take
from steelyard.hub.db.database import Database
from steelyard.hub.db.errors import SchemaAbsent, SchemaBehind, StoreServed
from steelyard.hub.db.opening import open_store
from steelyard.hub.db.restore import restore
from steelyard.hub.db.serving import alone, serving


def nothing_to_show(_done: int, _total: int) -> None:
    pass


@pytest.fixture
def sqlite_url(sqlite_databases):
    with sqlite_databases.fresh() as url:
        yield url


@pytest.fixture
def used(sqlite_url):
    """A SQLite database that has been used once."""
    database = open_store(sqlite_url, is_upgraded=False)
    yield database
    database.close()


def start(database: Database) -> bool:
    """Start and stop a hub, and tell whether it noticed a restore."""
    database.close()
    again = Database(database.url)
    reason = epoch.begin(again)
    with serving(again):
        pass
    again.close()
    return reason is not None


def number_of(database: Database) -> int:
    with database.read() as connection:
        present = epoch.current(connection)
    assert present is not None
    return present.number


def test_the_first_start_begins_the_first_epoch(database):
    assert epoch.begin(database) is None
    with database.read() as connection:
        present = epoch.current(connection)
    assert present is not None
    assert (present.number, present.cause) == (1, "created")


def test_a_restart_is_no_restore(database):
    for _turn in range(3):
        assert not start(database)
    assert number_of(database) == 1


def test_a_restart_after_a_kill_is_no_restore(database):
    epoch.begin(database)
    with database.write() as connection:
        add_event(connection, "a")
    with closing(Database(database.url)) as again:
        assert epoch.begin(again) is None


def test_a_crash_before_the_sidecar_was_written_is_no_restore(used):
    seen = sidecar.read(used.path)
    assert seen is not None
    epoch.beat(used)
    sidecar.write(used.path, seen)
    assert not start(used)


def test_a_restored_backup_is_noticed_recorded_and_begins_an_epoch(database, tmp_path):
    epoch.begin(database)
    take(database, tmp_path / "backup.db", on_progress=nothing_to_show)
    with database.write() as connection:
        add_event(connection, "after the backup")
    restore(database, tmp_path / "backup.db", replaces=True, on_progress=nothing_to_show)
    assert events(database) == []
    assert start(database)
    assert not start(database)
    with database.read() as connection:
        [told] = connection.execute(
            select(tables.audit_events).where(tables.audit_events.c.action == "store.restored")
        ).all()
        present = epoch.current(connection)
        assert connection.execute(select(tables.store_marks)).all() == []
    assert present is not None
    assert (present.number, present.cause) == (2, "restored")
    assert told.subject_id == str(present.epoch_id)
    assert "the mark of the backup of" in told.after["reason"]


def test_what_a_restore_ends_ends_in_the_transaction_that_records_it(database, tmp_path):
    epoch.begin(database)
    take(database, tmp_path / "backup.db", on_progress=nothing_to_show)
    restore(database, tmp_path / "backup.db", replaces=True, on_progress=nothing_to_show)

    def fail(connection, _at):
        add_event(connection, "half done")
        raise RuntimeError("the hook failed")

    with pytest.raises(RuntimeError, match="the hook failed"):
        epoch.begin(database, on_restored=[fail])
    assert events(database) == []
    assert epoch.begin(database, on_restored=[lambda connection, _at: add_event(connection, "ended")])
    assert events(database) == ["ended"]
    assert epoch.begin(database, on_restored=[fail]) is None


@pytest.mark.parametrize("is_served", [True, False], ids=["while it was served", "between two runs"])
def test_an_older_copy_of_the_file_is_noticed(used, tmp_path, is_served):
    def copy() -> None:
        with closing(sqlite3.connect(used.path)) as source, closing(sqlite3.connect(tmp_path / "copy.db")) as target:
            source.backup(target)

    if is_served:
        with serving(used):
            copy()
    else:
        copy()
        assert not start(used)
    used.close()
    shutil.copyfile(tmp_path / "copy.db", used.path)
    assert start(used)
    assert number_of(used) == 2


def test_a_file_without_its_sidecar_is_taken_for_restored(used):
    sidecar.path_of(used.path).unlink()
    assert start(used)


def test_a_sidecar_that_cannot_be_understood_is_as_none(used):
    sidecar.path_of(used.path).write_text("{", encoding="utf-8")
    assert start(used)


def test_another_databases_file_is_taken_for_restored(used, tmp_path):
    with closing(open_store(f"sqlite:///{tmp_path}/other.db", is_upgraded=True)) as other:
        assert start(other) is False
        used.close()
        shutil.copyfile(tmp_path / "other.db", used.path)
    assert start(used)


def test_a_sidecar_is_for_its_own_account_alone(used):
    assert sidecar.path_of(used.path).stat().st_mode & 0o777 == 0o600


def test_a_cluster_that_was_copied_is_noticed(postgresql_databases, postgres):
    with postgresql_databases.fresh() as url:
        database = open_store(url, is_upgraded=False)
        database.close()
        name = "copy_of_the_hub"
        postgres.create(name, template=str(database.url.database))
        copy = Database(postgres.url(name))
        try:
            assert start(copy)
            assert not start(copy)
            assert not start(database)
        finally:
            copy.close()
            postgres.drop(name)


def test_tables_that_were_loaded_from_a_dump_are_noticed(postgresql_databases, postgres):
    with postgresql_databases.fresh() as url:
        database = open_store(url, is_upgraded=False)
        database.close()
        dump = postgres.dump(str(database.url.database))
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute("DROP SCHEMA public CASCADE")
            connection.execute("CREATE SCHEMA public")
        postgres.load(str(database.url.database), dump)
        assert start(database)
        database.close()


def test_a_cluster_with_another_history_is_noticed():
    cluster = Cluster()
    try:
        database = open_store(cluster.create("hub"), is_upgraded=True)
        assert not start(database)
        cluster.kill()
        cluster.start()
        assert not start(database)
        cluster.begin_another_history()
        assert start(database)
        assert not start(database)
    finally:
        cluster.stop()


def test_of_several_starts_one_notices(database_url, tmp_path, database):
    epoch.begin(database)
    take(database, tmp_path / "backup.db", on_progress=nothing_to_show)
    restore(database, tmp_path / "backup.db", replaces=True, on_progress=nothing_to_show)
    reasons = []
    for _turn in range(3):
        hub = Database(database_url)
        reasons.append(epoch.begin(hub))
        hub.close()
    assert [reason is not None for reason in reasons] == [True, False, False]


def test_a_start_upgrades_only_when_asked(empty_url):
    database = Database(empty_url)
    database.make_file()
    with pytest.raises(SchemaAbsent):
        open_store(empty_url, is_upgraded=False)
    open_store(empty_url, is_upgraded=True).close()
    open_store(empty_url, is_upgraded=False).close()
    database.close()


def test_a_start_on_an_older_schema_is_refused(database_url, add_migration):
    add_migration()
    with pytest.raises(SchemaBehind):
        open_store(database_url, is_upgraded=False)


def test_a_database_that_is_served_is_not_to_be_had_alone(database):
    other = Database(database.url)
    with serving(database), serving(other), pytest.raises(StoreServed), alone(other):
        pass
    with alone(other), pytest.raises(StoreServed, match="Another command has this database for itself"):  # noqa: SIM117
        with serving(database, patience_s=0):
            pass
    with serving(database):
        pass
    other.close()


def test_a_hub_that_starts_waits_for_another_start_that_has_the_database_alone_for_a_moment(database):
    other = Database(database.url)

    def serve() -> None:
        with serving(database):
            pass

    with ThreadPoolExecutor(1) as threads:
        with alone(other):
            start = threads.submit(serve)
            with pytest.raises(TimeoutError):
                start.result(timeout=0.3)
        start.result()
    other.close()


def test_a_hub_whose_session_was_ended_takes_its_lock_again(postgresql_databases):
    with postgresql_databases.fresh() as url:
        database, other = Database(url), Database(url)
        epoch.begin(database)
        with serving(database, beat_s=0.02):
            with other.session() as connection:
                connection.execute(
                    text("SELECT pg_terminate_backend(pid) FROM pg_locks WHERE locktype = 'advisory' AND pid <> "
                         "pg_backend_pid() AND database = (SELECT oid FROM pg_database WHERE datname = "
                         "current_database())")
                )  # fmt: skip
                held = text(
                    "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND granted AND database = "
                    "(SELECT oid FROM pg_database WHERE datname = current_database())"
                )
                while connection.scalar(held) != 1:
                    pass  # The keeper's next beat is what is waited for; the test's own timeout ends it.
            with pytest.raises(StoreServed), alone(other):
                pass
        database.close()
        other.close()


def test_beats_are_counted_while_a_hub_serves(used):
    before = sidecar.read(used.path)
    with serving(used, beat_s=0.01):
        while (seen := sidecar.read(used.path)) is None or before is None or seen.beat < before.beat + 3:
            pass  # The beats are what is waited for.
        with used.write() as connection:
            add_project(connection)
    assert not start(used)
