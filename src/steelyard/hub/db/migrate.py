"""Runs the migrations: all that are wanted in one transaction, so that a database has all of them or none.

Two processes that start at once do not race: the second waits for the first and finds the work done.
"""

from __future__ import annotations

import functools
from pathlib import Path
from typing import TYPE_CHECKING, Any

from alembic.config import Config
from alembic.operations import Operations
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import func, inspect, select, text

from steelyard.hall.digests import sha256_of_file
from steelyard.hub.db import lineage
from steelyard.hub.db.errors import DowngradeRefused, StoreCorrupt, StoreServed
from steelyard.hub.db.lineage import Graph, current_revision
from steelyard.hub.db.serving import alone
from steelyard.hub.db.tables import audit_events, comparisons, gateway_requests, store_lineage

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from sqlalchemy import Connection, Table

    from steelyard.hub.db.database import Database

NOTHING = "nothing"  # What a downgrade goes to that takes away every table.
FOLDER = Path(__file__).parent / "migrations"
# A number that no other program uses in the same PostgreSQL database: whoever changes the schema holds it.
ADVISORY_LOCK = 0x5354_4545_4C59_4101
# As long as one of these tables has a row, a downgrade is refused.
HISTORY: list[Table] = [gateway_requests, comparisons, audit_events]


@functools.cache
def graph() -> Graph:
    """Return the migrations of this version."""
    oldest_first = reversed(list(_scripts().walk_revisions()))
    return Graph({script.revision: sha256_of_file(Path(script.path)) for script in oldest_first})


def require_current(database: Database) -> None:
    """Return if *database* is at the newest revision, whole and ours; raises a SchemaRefused or another StoreError."""
    with database.read() as connection:
        lineage.require_current(connection, graph=graph())


def upgrade(database: Database, *, to: str | None = None) -> Sequence[str]:
    """Bring *database* to the revision *to*, or the newest; make it if need be. Return the revisions that ran.

    Raises a StoreError, and then nothing has changed.
    """
    database.make_file()
    while _needs_upgrade(database, to=to or graph().head):
        try:
            return _upgrade(database, to=to or graph().head)
        except StoreServed:  # By a hub of the old schema, or by one that has upgraded it meanwhile.
            if _needs_upgrade(database, to=to or graph().head):
                raise
    return []


def _upgrade(database: Database, *, to: str) -> Sequence[str]:
    with alone(database), database.alter() as connection:
        wanted = _above(_locked_revision(connection), up_to=to)
        for revision in wanted:
            _run(connection, functools.partial(_scripts()._upgrade_revs, revision))
            lineage.record(connection, revision, graph=graph(), at=database.now(connection))
        _check_foreign_keys(connection)
    return wanted


def downgrade(database: Database, *, to: str) -> Sequence[str]:
    """Bring *database* back to the revision *to*, or to NOTHING; return the revisions that were undone.

    Raises DowngradeRefused where that would delete history, or another StoreError; then nothing has changed.
    """
    if to != NOTHING and to not in graph().digests:
        raise DowngradeRefused(f"There is no revision {to}; there are {', '.join(graph().revisions)}, and {NOTHING}")
    with alone(database), database.alter() as connection:
        unwanted = _above(to, up_to=_locked_revision(connection))[::-1]
        if unwanted:
            _refuse_history(connection)
        for revision in unwanted:
            connection.execute(store_lineage.delete().where(store_lineage.c.revision == revision))
            _run(connection, functools.partial(_scripts()._downgrade_revs, _below(revision)))
        _check_foreign_keys(connection)
    return unwanted


def _needs_upgrade(database: Database, *, to: str) -> bool:
    """Tell whether the database is not at *to*: a hub may serve while another start finds nothing to do."""
    with database.read() as connection:
        before = current_revision(connection)
        if before is not None:
            lineage.require_own(connection, before, graph=graph())
    return bool(_above(before, up_to=to))


def _above(revision: str | None, *, up_to: str | None) -> Sequence[str]:
    """Return the revisions after *revision*, up to and with *up_to*, oldest first."""
    known = [NOTHING, *graph().revisions]
    return known[known.index(revision or NOTHING) + 1 : known.index(up_to or NOTHING) + 1]


def _below(revision: str) -> str:
    place = graph().revisions.index(revision)
    return graph().revisions[place - 1] if place else "base"  # Alembic's word for NOTHING.


def _locked_revision(connection: Connection) -> str | None:
    """Return the revision, once no other process changes the schema, and having checked that it is ours."""
    if connection.dialect.name == "postgresql":  # SQLite has one writer at a time.
        connection.execute(select(func.pg_advisory_xact_lock(ADVISORY_LOCK)))
    revision = current_revision(connection)
    if revision is not None:
        lineage.require_own(connection, revision, graph=graph())
    return revision


def _run(connection: Connection, steps: Callable[[Any], Any]) -> None:
    context = MigrationContext.configure(
        connection, opts={"fn": lambda at, _context: steps(at), "transactional_ddl": True}
    )
    with Operations.context(context):
        context.run_migrations()


def _refuse_history(connection: Connection) -> None:
    present = set(inspect(connection).get_table_names())
    for table in HISTORY:
        if table.name not in present:
            continue
        count = connection.scalar(select(func.count()).select_from(table))
        if count:
            raise DowngradeRefused(
                f"The downgrade is refused: {table.name} has {count} rows of history. To go back, restore a backup "
                "that was taken before the upgrade"
            )


def _check_foreign_keys(connection: Connection) -> None:
    if connection.dialect.name == "sqlite" and connection.execute(text("PRAGMA foreign_key_check")).first():
        raise StoreCorrupt("A row points at a row that is not there, so the schema was left as it was")


@functools.cache
def _scripts() -> ScriptDirectory:
    config = Config()
    config.set_main_option("script_location", str(FOLDER).replace("%", "%%"))
    return ScriptDirectory.from_config(config)
