"""The check of a database."""

from __future__ import annotations

from contextlib import closing

import pytest
from sqlalchemy import text
from tests.store.rows import NOW, add_event, add_project

from steelyard.hub.db import epoch, sidecar, tables
from steelyard.hub.db.check import check
from steelyard.hub.db.database import Database
from steelyard.hub.db.errors import StoreMissing, StoreUnavailable
from steelyard.hub.db.opening import open_store

NAMES = ["integrity", "foreign keys", "schema", "epoch"]


def findings(database):
    return {finding.name: finding for finding in check(database)}


def bad(database):
    return {name: finding.answer for name, finding in findings(database).items() if not finding.is_good}


@pytest.fixture
def sqlite(sqlite_databases):
    with sqlite_databases.fresh() as url, closing(open_store(url, is_upgraded=False)) as database:
        yield database


def test_a_sound_database_passes(database):
    assert "none yet" in findings(database)["epoch"].answer
    epoch.begin(database)
    assert list(findings(database)) == NAMES
    assert bad(database) == {}
    assert "number 1, created at" in findings(database)["epoch"].answer


def test_a_changed_schema_is_found(database):
    with database.alter() as connection:
        connection.execute(text("ALTER TABLE projects ADD COLUMN colour TEXT"))
    assert list(bad(database)) == ["schema"]


def test_an_older_schema_is_found(database, add_migration):
    add_migration()
    assert "steelyard hub db upgrade" in bad(database)["schema"]


def test_an_empty_database_is_found(empty):
    empty.make_file()
    assert "schema" in bad(empty)


def test_a_row_that_points_nowhere_is_found(sqlite):
    with sqlite.alter() as connection:
        project = add_project(connection)
        connection.execute(
            tables.suites.insert().values(id=project, project_id=project, slug="s", name="s", created_at=NOW)
        )
        connection.execute(tables.projects.delete())
    assert bad(sqlite) == {"foreign keys": "1 rows point at rows that are not there: suites row 1"}


def test_an_unchecked_rule_is_found(postgresql_databases):
    with postgresql_databases.fresh() as url, closing(Database(url)) as database:
        with database.alter() as connection:
            connection.execute(
                text("ALTER TABLE suites ADD CONSTRAINT later FOREIGN KEY (id) REFERENCES projects (id) NOT VALID")
            )
        assert "later" in bad(database)["foreign keys"]


def test_damaged_pages_are_found(sqlite):
    with sqlite.write() as connection:
        for number in range(500):
            add_event(connection, f"{'long ' * 10}{number}"[:64])
    sqlite.close()
    content = bytearray(sqlite.path.read_bytes())
    content[-30_000:] = b"\xff" * 30_000
    sqlite.path.write_bytes(bytes(content))
    assert "restore a backup" in bad(sqlite)["integrity"]


def test_a_restore_that_no_start_has_noticed_is_told(sqlite):
    sidecar.path_of(sqlite.path).unlink()
    assert "the next start begins a new one" in findings(sqlite)["epoch"].answer


def test_a_database_that_cannot_be_opened_is_an_error(tmp_path):
    with pytest.raises(StoreMissing):
        findings(Database(f"sqlite:///{tmp_path}/hub.db"))
    with pytest.raises(StoreUnavailable):
        findings(Database(f"postgresql://hub@/hub?host={tmp_path}"))
