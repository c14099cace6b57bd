"""The migrations on both databases."""

from __future__ import annotations

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext

from steelyard.hub.db import migrate
from steelyard.hub.db.database import Database
from steelyard.hub.db.schema import describe
from steelyard.hub.db.tables import metadata


@pytest.fixture
def empty(empty_url):
    database = Database(empty_url)
    yield database
    database.close()


def test_the_newest_migration_leaves_the_tables_as_the_code_has_them(database):
    with database.read() as connection:
        assert compare_metadata(MigrationContext.configure(connection), metadata) == []


def test_keys_rules_and_indexes_are_named_and_written_as_the_code_has_them(database, empty):
    empty.make_file()
    with empty.alter() as connection:
        metadata.create_all(connection)
        expected = describe(connection)
    with database.read() as connection:
        assert describe(connection) == expected


def test_a_migrated_database_is_taken(database):
    migrate.require_current(database)


def test_upgrading_twice_does_nothing_more(empty):
    assert list(migrate.upgrade(empty)) == list(migrate.graph().revisions)
    assert list(migrate.upgrade(empty)) == []


def test_every_migration_can_be_taken_back_and_made_again(empty):
    migrate.upgrade(empty)
    assert list(migrate.downgrade(empty, to=migrate.NOTHING)) == list(migrate.graph().revisions)[::-1]
    assert list(migrate.upgrade(empty)) == list(migrate.graph().revisions)
    migrate.require_current(empty)
