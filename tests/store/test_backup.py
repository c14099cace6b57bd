"""Backups of both databases, restored to either."""

from __future__ import annotations

import shutil
import sqlite3
import threading
from contextlib import closing, contextmanager
from datetime import timedelta

import pytest
from sqlalchemy import select, text
from tests.store.rows import NOW, add_catalogue, add_event, add_project, add_request, add_requests, events

from steelyard.hub.db import epoch, migrate, tables
from steelyard.hub.db.backup import database_at, take
from steelyard.hub.db.database import Database
from steelyard.hub.db.errors import BackupRefused, RestoreRefused, SchemaBehind, StoreServed
from steelyard.hub.db.restore import restore
from steelyard.hub.db.serving import serving
from steelyard.hub.db.transfer import COPIED


class Shown:
    """What a progress bar was told."""

    def __init__(self) -> None:
        self.calls: list[tuple[int, int]] = []

    def __call__(self, done: int, total: int) -> None:
        self.calls.append((done, total))

    @property
    def is_whole(self) -> bool:
        done = [call[0] for call in self.calls]
        return done == sorted(done) and self.calls[-1][0] == self.calls[-1][1] > 0


def contents(database: Database) -> dict[str, list[tuple]]:
    """Return every row of every table but the store's own books."""
    with database.read() as connection:
        return {
            table.name: [tuple(row) for row in connection.execute(select(table).order_by(*table.primary_key.columns))]
            for table in COPIED
            if not table.name.startswith("store_")
        }


@contextmanager
def opened(url: str):
    database = Database(url)
    yield database
    database.close()


@pytest.fixture
def full(database):
    """A database with a row of most kinds, among them texts that are not ASCII."""
    epoch.begin(database)
    with database.write() as connection:
        names = add_catalogue(connection)
        add_requests(connection, names, [NOW + timedelta(microseconds=number) for number in range(1200)])
        add_event(connection, "ünïcödé ✓")
    return database


@pytest.fixture(params=["sqlite", "postgresql"])
def target_url(request):
    """A database to restore to, of each kind in turn."""
    with request.getfixturevalue(f"{request.param}_databases").fresh(is_migrated=False) as url:
        yield url


def test_a_backup_is_one_marked_file_for_its_own_account_alone(full, tmp_path):
    path, shown = tmp_path / "backup.db", Shown()
    take(full, path, on_progress=shown)
    assert [found.name for found in tmp_path.iterdir()] == ["backup.db"]
    assert path.stat().st_mode & 0o777 == 0o600
    assert shown.is_whole
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        assert connection.execute("SELECT count(*) FROM store_marks").fetchone() == (1,)
        assert connection.execute("PRAGMA journal_mode").fetchone() == ("delete",)
    with full.read() as connection:
        assert connection.execute(select(tables.store_marks)).all() == []


def test_a_backup_restored_to_either_database_has_every_row(full, target_url, tmp_path):
    take(full, tmp_path / "backup.db", on_progress=Shown())
    with opened(target_url) as target:
        shown = Shown()
        restored = restore(target, tmp_path / "backup.db", on_progress=shown)
        assert restored == (None, [])
        assert shown.is_whole
        migrate.require_current(target)
        assert contents(target) == contents(full)
        assert epoch.begin(target) is not None


def test_row_ids_go_on_where_they_were_even_if_the_last_rows_are_gone(full, target_url, tmp_path):
    with full.write() as connection:
        last = max(connection.scalars(select(tables.gateway_requests.c.id)))
        connection.execute(tables.gateway_requests.delete())
    take(full, tmp_path / "backup.db", on_progress=Shown())
    with opened(target_url) as target:
        restore(target, tmp_path / "backup.db", on_progress=Shown())
        with target.write() as connection:
            names = {
                "service_client_id": connection.scalar(select(tables.service_clients.c.id)),
                "credential_id": connection.scalar(select(tables.credentials.c.id)),
                "project_binding_id": connection.scalar(select(tables.project_bindings.c.id)),
                "route_id": connection.scalar(select(tables.routes.c.id)),
                "deployment_id": connection.scalar(select(tables.deployments.c.id)),
            }
            assert add_request(connection, names) == last + 1


def test_a_backup_shows_one_moment_while_others_write(database, tmp_path):
    epoch.begin(database)
    is_over = threading.Event()

    def write() -> None:
        number = 0
        while not is_over.is_set():
            with database.write() as connection:  # A project and an event, always together.
                add_project(connection, f"p{number}")
                add_event(connection, f"p{number}")
            number += 1

    writer = threading.Thread(target=write)
    writer.start()
    try:
        for turn in range(5):
            seen = len(events(database))
            while len(events(database)) <= seen + 5:
                pass  # The writer's next rows are what is waited for.
            path = tmp_path / f"{turn}.db"
            take(database, path, on_progress=Shown())
            with opened(f"sqlite:///{path}") as copy, copy.read() as connection:
                slugs = set(connection.scalars(select(tables.projects.c.slug)))
                actions = set(connection.scalars(select(tables.audit_events.c.action)))
            assert slugs == actions
            assert len(slugs) > seen
    finally:
        is_over.set()
        writer.join()


def test_a_backup_replaces_no_file_unless_told(full, tmp_path):
    path = tmp_path / "backup.db"
    path.write_text("precious", encoding="utf-8")
    with pytest.raises(BackupRefused, match="--force"):
        take(full, path, on_progress=Shown())
    assert path.read_text(encoding="utf-8") == "precious"
    take(full, path, replaces=True, on_progress=Shown())
    assert path.stat().st_size > 100_000


@pytest.fixture
def file_database(sqlite_databases):
    with sqlite_databases.fresh() as url, closing(Database(url)) as database:
        yield database


@pytest.mark.parametrize("name", ["hub.db", "hub.db-wal", "hub.db.epoch", "hub.db.lock", "link.db"])
def test_a_backup_never_replaces_the_database_itself(file_database, name):
    file_database.path.with_name("link.db").symlink_to(file_database.path.name)
    with file_database.write() as connection:
        add_event(connection, "kept")
    path = file_database.path.with_name(name.replace("hub.db", file_database.path.name))
    with pytest.raises(BackupRefused, match="the database itself"):
        take(file_database, path, replaces=True, on_progress=Shown())
    with file_database.read() as connection:
        assert connection.scalar(select(tables.audit_events.c.action)) == "kept"


def test_what_an_interrupted_restore_left_is_no_backup_and_stays(file_database, tmp_path):
    left = file_database.path.with_name(f"{file_database.path.name}.restoring")
    left.write_bytes(b"left")
    with pytest.raises(RestoreRefused, match="interrupted restore"):
        restore(file_database, left, replaces=True, on_progress=Shown())
    assert left.read_bytes() == b"left"


def test_a_backup_to_a_folder_that_is_not_there_fails_in_a_sentence(full, tmp_path):
    with pytest.raises(BackupRefused, match="There is no such folder"):
        take(full, tmp_path / "no" / "backup.db", on_progress=Shown())


def test_an_interrupted_backup_leaves_no_file(full, tmp_path):
    def interrupt(_done: int, _total: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        take(full, tmp_path / "backup.db", on_progress=interrupt)
    assert list(tmp_path.iterdir()) == []


def test_an_older_schema_is_not_backed_up_with_this_version(full, tmp_path, add_migration):
    add_migration()
    with pytest.raises(SchemaBehind):
        take(full, tmp_path / "backup.db", on_progress=Shown())


def test_data_is_not_replaced_unless_told(full, tmp_path):
    take(full, tmp_path / "backup.db", on_progress=Shown())
    with pytest.raises(RestoreRefused, match="The database has data"):
        restore(full, tmp_path / "backup.db", on_progress=Shown())
    assert epoch.begin(full) is None


def test_replaced_data_is_kept_aside(full, tmp_path):
    take(full, tmp_path / "backup.db", on_progress=Shown())
    with full.write() as connection:
        add_event(connection, "after the backup")
    before = contents(full)
    restored = restore(full, tmp_path / "backup.db", replaces=True, on_progress=Shown())
    assert "after the backup" not in events(full)
    assert restored.kept is not None
    with closing(database_at(restored.kept)) as kept:
        assert contents(kept) == before


def test_data_that_was_only_in_the_log_is_kept_aside_too(sqlite_databases, tmp_path):
    with sqlite_databases.fresh() as url, opened(url) as database:
        epoch.begin(database)
        take(database, tmp_path / "backup.db", on_progress=Shown())
        with database.write() as connection:
            add_event(connection, "in the log")
        left = tmp_path / "crashed"
        left.mkdir()
        for path in database.path.parent.iterdir():  # As a crash leaves the folder: the log is not in the file yet.
            shutil.copyfile(path, left / path.name)
        assert (left / "hub.db-wal").stat().st_size > 0
        with opened(f"sqlite:///{left}/hub.db") as crashed:
            restored = restore(crashed, tmp_path / "backup.db", replaces=True, on_progress=Shown())
            assert events(crashed) == []
        assert restored.kept is not None
        with closing(database_at(restored.kept)) as kept:
            assert events(kept) == ["in the log"]


def test_a_damaged_database_is_replaced_and_kept_aside(sqlite_databases, tmp_path):
    with sqlite_databases.fresh() as url, opened(url) as database:
        take(database, tmp_path / "backup.db", on_progress=Shown())
        database.close()
        database.path.write_bytes(b"damaged" * 1000)
        with pytest.raises(RestoreRefused, match="The database has data"):
            restore(database, tmp_path / "backup.db", on_progress=Shown())
        restored = restore(database, tmp_path / "backup.db", replaces=True, on_progress=Shown())
        assert restored.kept is not None
        assert restored.kept.read_bytes() == b"damaged" * 1000
        migrate.require_current(database)


def test_a_served_database_is_not_replaced(full, tmp_path):
    take(full, tmp_path / "backup.db", on_progress=Shown())
    with serving(full), pytest.raises(StoreServed):
        restore(full, tmp_path / "backup.db", replaces=True, on_progress=Shown())
    assert "ünïcödé ✓" in events(full)


@pytest.mark.parametrize("content", [b"", b"no backup at all" * 1000, b"SQLite format 3\x00" + b"\xff" * 8176])
def test_what_is_no_backup_is_refused_and_nothing_changes(full, tmp_path, content):
    (tmp_path / "wrong.db").write_bytes(content)
    with pytest.raises(RestoreRefused, match="is no backup of a hub"):
        restore(full, tmp_path / "wrong.db", replaces=True, on_progress=Shown())
    assert "ünïcödé ✓" in events(full)
    assert epoch.begin(full) is None


def test_a_damaged_backup_is_refused(full, tmp_path):
    path = tmp_path / "backup.db"
    take(full, path, on_progress=Shown())
    content = bytearray(path.read_bytes())
    content[20_000:60_000] = b"\xff" * 40_000
    path.write_bytes(content)
    with pytest.raises(RestoreRefused, match="it is damaged"):
        restore(full, path, replaces=True, on_progress=Shown())
    assert epoch.begin(full) is None


def test_a_backup_that_is_not_there_is_refused(full, tmp_path):
    with pytest.raises(RestoreRefused, match="There is no such backup"):
        restore(full, tmp_path / "backup.db", replaces=True, on_progress=Shown())


def test_another_lineages_backup_is_refused(full, tmp_path):
    path = tmp_path / "backup.db"
    take(full, path, on_progress=Shown())
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("UPDATE store_lineage SET lineage_id = 'another'")
    with pytest.raises(RestoreRefused, match="did not bring it there"):
        restore(full, path, replaces=True, on_progress=Shown())


def test_a_changed_backup_is_refused(full, tmp_path):
    path = tmp_path / "backup.db"
    take(full, path, on_progress=Shown())
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("ALTER TABLE projects ADD COLUMN colour TEXT")
    with pytest.raises(RestoreRefused, match="something else changed them"):
        restore(full, path, replaces=True, on_progress=Shown())


def test_an_older_backup_is_brought_to_this_versions_schema(full, target_url, tmp_path, add_migration):
    take(full, tmp_path / "backup.db", on_progress=Shown())
    revision = add_migration('op.create_table("notes", sa.Column("id", sa.Integer, primary_key=True))')
    with opened(target_url) as target:
        assert restore(target, tmp_path / "backup.db", on_progress=Shown()).upgraded == [revision]
        migrate.require_current(target)
        with target.read() as connection:
            assert connection.scalar(text("SELECT count(*) FROM notes")) == 0
        assert "ünïcödé ✓" in events(target)


def test_a_newer_backup_is_refused(database, target_url, tmp_path, add_migration, migrations):
    revision = add_migration('op.create_table("notes", sa.Column("id", sa.Integer, primary_key=True))')
    migrate.upgrade(database)
    take(database, tmp_path / "backup.db", on_progress=Shown())
    (migrations / "versions" / f"r{revision}.py").unlink()
    migrate.graph.cache_clear()
    migrate._scripts.cache_clear()
    with opened(target_url) as target, pytest.raises(RestoreRefused, match="which a newer version made"):
        restore(target, tmp_path / "backup.db", on_progress=Shown())


def test_a_plain_copy_of_a_file_is_restored_as_a_backup_is(sqlite_databases, target_url, tmp_path):
    with sqlite_databases.fresh() as url, opened(url) as source:
        epoch.begin(source)
        with source.write() as connection:
            add_event(connection, "copied")
        with closing(sqlite3.connect(source.path)) as live, closing(sqlite3.connect(tmp_path / "copy.db")) as copy:
            live.backup(copy)
    with opened(target_url) as target:
        restore(target, tmp_path / "copy.db", on_progress=Shown())
        assert events(target) == ["copied"]
        assert epoch.begin(target) is not None


def test_the_same_backup_can_be_restored_again(database, tmp_path):
    epoch.begin(database)
    take(database, tmp_path / "backup.db", on_progress=Shown())
    for _turn in range(2):
        with database.write() as connection:
            add_event(connection, "after the backup")
        restore(database, tmp_path / "backup.db", replaces=True, on_progress=Shown())
        assert events(database) == []
        assert epoch.begin(database) is not None
