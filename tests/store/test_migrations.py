"""The migrations on both databases, and the record by which a foreign or changed schema is refused."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from sqlalchemy import select, text
from tests.postgres import OLDEST, Cluster
from tests.store.rows import NOW, add_event, add_project, events

from steelyard.hub.db import migrate, tables
from steelyard.hub.db.database import Database
from steelyard.hub.db.errors import (
    DowngradeRefused,
    LineageForeign,
    SchemaAbsent,
    SchemaAhead,
    SchemaBehind,
    SchemaChanged,
    StoreServed,
)
from steelyard.hub.db.schema import describe, fingerprint
from steelyard.hub.db.serving import serving
from steelyard.hub.db.tables import store_lineage

ROOT = Path(__file__).parents[2]
MAKES_NOTES = 'op.create_table("notes", sa.Column("id", sa.Integer, primary_key=True))'


def change(database: Database, *statements: str) -> None:
    with database.alter() as connection:
        for statement in statements:
            connection.execute(text(statement))


def test_the_newest_migration_leaves_the_tables_as_the_code_has_them(database):
    with database.read() as connection:
        assert compare_metadata(MigrationContext.configure(connection), tables.metadata) == []


def test_keys_rules_and_indexes_are_named_and_written_as_the_code_has_them(database, empty):
    empty.make_file()
    with empty.alter() as connection:
        tables.metadata.create_all(connection)
        expected = describe(connection)
    with database.read() as connection:
        assert describe(connection) == expected


def test_every_name_fits_into_postgresql(database):
    with database.read() as connection:
        names = re.findall(r'"((?:pk|fk|uq|ck|ix)_\w+)"', json.dumps(describe(connection)))
    assert len(names) > 30
    assert [name for name in names if len(name) > 63] == []


def test_a_fingerprint_is_the_same_on_the_oldest_and_the_newest_postgresql(postgresql_databases):
    def of(url: str) -> str:
        database = Database(url)
        migrate.upgrade(database)
        with database.read() as connection:
            found = fingerprint(connection)
        database.close()
        return found

    cluster = Cluster(install=OLDEST)
    try:
        oldest = of(cluster.create("hub"))
    finally:
        cluster.stop()
    with postgresql_databases.fresh() as url:
        assert of(url) == oldest


def test_a_migrated_database_is_taken(database):
    migrate.require_current(database)


def test_upgrading_twice_does_nothing_more(empty):
    assert list(migrate.upgrade(empty)) == list(migrate.graph().revisions)
    assert list(migrate.upgrade(empty)) == []


# As the hub's first version recorded it, and no other revision.
FIRST_FINGERPRINTS = {
    "sqlite": "73d4231f02f31c1f79057089e9899f3a83e0e6cb1f9db6c2b4d0ee517770ac68",
    "postgresql": "8e9a018e3366627797ea7cc95ed77bd094e03e9eb9045909073e48c4b8469376",
}


def test_a_database_that_the_first_version_made_is_upgraded(empty, databases):
    first, *later = migrate.graph().revisions
    migrate.upgrade(empty, to=first)
    with empty.write() as connection:
        connection.execute(store_lineage.update().values(schema_sha256=FIRST_FINGERPRINTS[databases.kind]))
    assert list(migrate.upgrade(empty)) == later
    migrate.require_current(empty)


def test_every_migration_can_be_taken_back_and_made_again(empty):
    migrate.upgrade(empty)
    assert list(migrate.downgrade(empty, to=migrate.NOTHING)) == list(migrate.graph().revisions)[::-1]
    assert list(migrate.upgrade(empty)) == list(migrate.graph().revisions)
    migrate.require_current(empty)


def test_one_migration_can_be_taken_back(database, add_migration):
    below = migrate.graph().head
    revision = add_migration(MAKES_NOTES, 'op.drop_table("notes")')
    assert list(migrate.upgrade(database)) == [revision]
    assert list(migrate.downgrade(database, to=below)) == [revision]
    with pytest.raises(SchemaBehind, match=f"at revision {below} and this version needs {revision}"):
        migrate.require_current(database)


def test_a_downgrade_to_what_there_is_not_is_refused(database):
    with pytest.raises(DowngradeRefused, match="There is no revision 20200101_0001; there are 20261130_0001"):
        migrate.downgrade(database, to="20200101_0001")


def test_history_blocks_a_downgrade(database):
    with database.write() as connection:
        add_event(connection, "something happened")
    with pytest.raises(DowngradeRefused, match="audit_events has 1 rows of history"):
        migrate.downgrade(database, to=migrate.NOTHING)
    migrate.require_current(database)


def test_a_migration_that_fails_leaves_nothing_of_itself_nor_of_those_before_it(database, add_migration):
    before = migrate.graph().head
    add_migration(MAKES_NOTES)
    add_migration('op.create_table("more", sa.Column("id", sa.Integer)); raise RuntimeError("broken")')
    with pytest.raises(RuntimeError, match="broken"):
        migrate.upgrade(database)
    with database.read() as connection:
        assert {"notes", "more"}.isdisjoint(describe(connection))
        assert connection.scalar(text("SELECT version_num FROM alembic_version")) == before


def test_a_table_that_others_point_at_can_be_rebuilt(database, add_migration):
    with database.write() as connection:
        project = add_project(connection)
        connection.execute(
            tables.suites.insert().values(
                id=project, project_id=project, slug="s", name="s", created_at=NOW
            )
        )  # fmt: skip
    add_migration(
        'with op.batch_alter_table("projects", recreate="auto") as batch: '
        'batch.alter_column("name", existing_type=sa.Text(), nullable=True)'
    )
    migrate.upgrade(database)
    with database.read() as connection:
        assert connection.scalar(select(tables.suites.c.project_id)) == project


def test_a_migration_that_leaves_a_row_pointing_nowhere_is_undone(sqlite_databases, add_migration):
    with sqlite_databases.fresh() as url:
        database = Database(url)
        with database.write() as connection:
            project = add_project(connection)
            connection.execute(
                tables.suites.insert().values(id=project, project_id=project, slug="s", name="s", created_at=NOW)
            )
        add_migration('op.execute("DELETE FROM projects")')
        with pytest.raises(Exception, match="points at a row that is not there"):
            migrate.upgrade(database)
        with database.read() as connection:
            assert connection.scalar(select(tables.projects.c.id)) == project
        database.close()


def test_an_empty_database_is_refused_with_what_to_do(empty):
    empty.make_file()
    with pytest.raises(SchemaAbsent, match="steelyard hub db upgrade"):
        migrate.require_current(empty)


def test_an_older_database_is_refused_with_what_to_do(database, add_migration):
    add_migration(MAKES_NOTES)
    with pytest.raises(SchemaBehind, match="take a backup, then run `steelyard hub db upgrade`"):
        migrate.require_current(database)


def test_a_newer_database_is_refused(empty, add_migration):
    revision = add_migration(MAKES_NOTES)
    migrate.upgrade(empty)
    (migrate.FOLDER / "versions" / f"r{revision}.py").unlink()
    migrate.graph.cache_clear()
    migrate._scripts.cache_clear()
    for use in (migrate.require_current, migrate.upgrade):
        with pytest.raises(SchemaAhead, match=f"at revision {revision}, which a newer version made"):
            use(empty)


def test_somebody_elses_tables_are_refused(empty):
    empty.make_file()
    change(empty, "CREATE TABLE customers (id INTEGER)")
    for use in (migrate.require_current, migrate.upgrade):
        with pytest.raises(LineageForeign, match="give the hub one of its own"):
            use(empty)


def test_another_graph_that_uses_our_revision_ids_is_refused(empty):
    empty.make_file()
    change(
        empty,
        "CREATE TABLE alembic_version (version_num VARCHAR(32) PRIMARY KEY)",
        f"INSERT INTO alembic_version VALUES ('{migrate.graph().head}')",
    )
    for use in (migrate.require_current, migrate.upgrade):
        with pytest.raises(LineageForeign, match="was not made by this product's migrations"):
            use(empty)


def test_another_lineage_is_refused(database):
    change(database, "UPDATE store_lineage SET lineage_id = 'another'")
    with pytest.raises(LineageForeign, match="did not bring it there"):
        migrate.require_current(database)


def test_a_stamped_revision_is_refused(database, add_migration):
    revision = add_migration(MAKES_NOTES)
    change(database, f"UPDATE alembic_version SET version_num = '{revision}'")
    for use in (migrate.require_current, migrate.upgrade):
        with pytest.raises(LineageForeign, match="did not bring it there"):
            use(database)


def test_a_record_with_a_gap_is_refused(database, add_migration):
    add_migration(MAKES_NOTES)
    migrate.upgrade(database)
    change(database, f"DELETE FROM store_lineage WHERE revision = '{migrate.graph().revisions[0]}'")
    with pytest.raises(LineageForeign, match="does not lead to its revision"):
        migrate.require_current(database)


def test_a_migration_that_was_another_file_is_refused(database, migrations):
    path = next((migrations / "versions").glob("r*.py"))
    path.write_text(path.read_text(encoding="utf-8") + "\n# Rewritten.\n", encoding="utf-8")
    migrate.graph.cache_clear()
    with pytest.raises(LineageForeign, match="was not the one of that name that this version has"):
        migrate.require_current(database)


@pytest.mark.parametrize(
    "statement",
    [
        "ALTER TABLE projects ADD COLUMN colour TEXT",
        "ALTER TABLE projects DROP COLUMN name",
        "ALTER TABLE projects RENAME COLUMN name TO title",
        "CREATE INDEX ix_mine ON projects (name)",
        "DROP INDEX ix_gateway_requests_started_at",
        "CREATE TABLE notes (id INTEGER)",
        "DROP TABLE suite_cases",
    ],
)
def test_a_schema_that_was_changed_by_hand_is_refused(database, statement):
    change(database, statement)
    for use in (migrate.require_current, migrate.upgrade):
        with pytest.raises(SchemaChanged):
            use(database)


def test_a_trigger_is_a_change_by_hand(database):
    if database.is_postgresql:
        change(
            database,
            "CREATE FUNCTION forget() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END'",
            "CREATE TRIGGER forget BEFORE INSERT ON audit_events FOR EACH ROW EXECUTE FUNCTION forget()",
        )
    else:
        change(database, "CREATE TRIGGER forget AFTER INSERT ON audit_events BEGIN DELETE FROM audit_events; END")
    with pytest.raises(SchemaChanged):
        migrate.require_current(database)


def test_a_dropped_rule_is_a_change_by_hand(database):
    if database.is_postgresql:
        change(database, "ALTER TABLE credentials DROP CONSTRAINT ck_credentials_role")
    else:
        change(
            database,
            "PRAGMA writable_schema = ON",
            "UPDATE sqlite_schema SET sql = replace(sql, '''viewer'', ', '') WHERE name = 'credentials'",
        )
    with pytest.raises(SchemaChanged):
        migrate.require_current(database)


def test_statistics_are_no_change(database):
    change(database, "ANALYZE")
    database.close()
    migrate.require_current(database)


def test_starts_that_race_make_the_tables_once(empty_url):
    def start(_number: int) -> list[str]:
        database = Database(empty_url)
        ran = list(migrate.upgrade(database))
        migrate.require_current(database)
        database.close()
        return ran

    with ThreadPoolExecutor(6) as threads:
        assert sorted(threads.map(start, range(6))) == [[]] * 5 + [list(migrate.graph().revisions)]


def test_processes_that_race_make_the_tables_once(empty_url):
    command = [sys.executable, "-m", "tests.store.rows", "upgrade", empty_url, str(migrate.FOLDER)]
    running = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(4)]
    told = sorted(process.communicate()[0].split("\n")[-2] for process in running)
    assert told == ["ran 0"] * 3 + [f"ran {len(migrate.graph().revisions)}"]


def test_a_served_database_is_not_upgraded_under_its_hub(database, add_migration):
    with serving(database):
        assert list(migrate.upgrade(database)) == []
        add_migration(MAKES_NOTES)
        with pytest.raises(StoreServed):
            migrate.upgrade(database)
    assert len(migrate.upgrade(database)) == 1
    assert events(database) == []


def test_the_graph_is_one_line_of_dated_revisions():
    scripts = migrate._scripts()
    assert scripts.get_bases() == [migrate.graph().revisions[0]]
    assert scripts.get_heads() == [migrate.graph().head]
    assert list(migrate.graph().revisions) == sorted(migrate.graph().revisions)
    assert [name for name in migrate.graph().revisions if not re.fullmatch(r"20\d{6}_\d{4}", name)] == []


def test_published_migrations_are_never_rewritten():
    golden = json.loads((ROOT / "tests" / "golden" / "migrations.json").read_text(encoding="utf-8"))
    assert dict(migrate.graph().digests) == golden


def test_the_wheel_carries_the_migrations():
    folders = (migrate.FOLDER, migrate.FOLDER / "versions")
    assert all((folder / "__init__.py").exists() for folder in folders), "setuptools finds packages by this file"
