"""Whether a database is whole, ours, of this version, and where it was when it was last used."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from sqlalchemy import func, inspect, select, text

from steelyard.hub.db import epoch, lineage, migrate
from steelyard.hub.db.errors import CheckFailed, StoreCorrupt, StoreError
from steelyard.hub.db.schema import VERSION_TABLE
from steelyard.hub.db.tables import metadata

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from sqlalchemy import Connection

    from steelyard.hub.db.database import Database

_MOST_FAULTS = 20


class Finding(NamedTuple):
    """One question and its answer."""

    name: str
    is_good: bool
    answer: str


def check(database: Database) -> Iterator[Finding]:
    """Ask everything that can be asked while hubs serve; raises StoreError where the database cannot be opened."""
    with database.read() as connection:
        connection.execute(select(1))
        questions: dict[str, Callable[[Connection, Database], str]] = {
            "integrity": _integrity,
            "foreign keys": _foreign_keys,
            "schema": _schema,
            "epoch": _epoch,
        }
        for name, question in questions.items():
            try:
                answer = question(connection, database)
            except StoreError as error:
                yield Finding(name, is_good=False, answer=str(error))
                if question is _schema:
                    return  # The next question's tables may not be there.
            else:
                yield Finding(name, is_good=True, answer=answer)


def _integrity(connection: Connection, database: Database) -> str:
    """Read every page of the tables; PostgreSQL looks at each where its cluster has checksums."""
    if database.is_postgresql:
        present = set(inspect(connection).get_table_names())
        for table in metadata.sorted_tables:
            if table.name not in present:
                continue  # The schema's own question tells.
            connection.scalar(select(func.count()).select_from(table))
        checksums = connection.scalar(text("SHOW data_checksums"))
        return f"every table can be read; the cluster's checksums are {checksums}"
    faults = connection.scalars(text(f"PRAGMA integrity_check({_MOST_FAULTS})")).all()
    if list(faults) != ["ok"]:
        raise StoreCorrupt(f"{StoreCorrupt()}: {'; '.join(faults)}")
    return "every page and every index is sound"


def _foreign_keys(connection: Connection, database: Database) -> str:
    if database.is_postgresql:
        unchecked = connection.scalars(text("SELECT conname FROM pg_constraint WHERE NOT convalidated")).all()
        if unchecked:
            raise CheckFailed(f"These rules were never checked: {', '.join(unchecked)}")
        return "the server keeps them"
    faults = connection.execute(text("PRAGMA foreign_key_check")).all()
    if faults:
        places = ", ".join(f"{fault[0]} row {fault[1]}" for fault in faults[:_MOST_FAULTS])
        raise CheckFailed(f"{len(faults)} rows point at rows that are not there: {places}")
    return "every row points at a row that is there"


def _schema(connection: Connection, _database: Database) -> str:
    lineage.require_current(connection, graph=migrate.graph())
    revision = connection.scalar(text(f"SELECT version_num FROM {VERSION_TABLE}"))  # noqa: S608  # A constant.
    return f"revision {revision}, as this version's migrations left it"


def _epoch(connection: Connection, database: Database) -> str:
    if reason := epoch.why_restored(database, connection):
        return f"the database was restored ({reason}); the next start begins a new one"
    present = epoch.current(connection)
    if present is None:
        return "none yet: the first start begins it"
    began = present.began_at.isoformat(timespec="seconds")
    return f"number {present.number}, {present.cause} at {began}"
