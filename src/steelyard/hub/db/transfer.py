"""Copies every row from one database of the newest schema to another, in batches, SQLite or PostgreSQL either way.

The record of the lineage is each database's own and is not copied. What counts row ids up goes on where it was, so that
no id is used twice.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlalchemy import Function, Table, func, inspect, select, text

from steelyard.hub.db.tables import metadata, store_epochs, store_lineage

if TYPE_CHECKING:
    from collections.abc import Callable

    from sqlalchemy import Connection

    # Told how many rows, or pages, are done, and of how many.
    Progress = Callable[[int, int], object]

_BATCH_ROWS = 1000
COPIED = [table for table in metadata.sorted_tables if table is not store_lineage]
_COUNTED = [table for table in COPIED if table.dialect_options["sqlite"]["autoincrement"]]


def copy_rows(source: Connection, target: Connection, *, on_progress: Progress) -> None:
    """Copy every row into the *target*'s empty tables."""
    total, done = _count_rows(source), 0
    for table in COPIED:
        rows = source.execution_options(stream_results=True, max_row_buffer=_BATCH_ROWS).execute(
            select(table).order_by(*table.primary_key.columns)
        )
        for batch in rows.partitions(_BATCH_ROWS):
            target.execute(table.insert(), [dict(row._mapping) for row in batch])
            done += len(batch)
            on_progress(done, total)
    for table in _COUNTED:
        _set_count(target, table, _count(source, table))


def has_rows(connection: Connection) -> bool:
    """Tell whether anybody has kept anything in the database, at whichever revision it is."""
    present = set(inspect(connection).get_table_names())
    kept = [table for table in COPIED if table is not store_epochs and table.name in present]
    return any(connection.scalar(select(table.primary_key.columns[0]).limit(1)) is not None for table in kept)


def _count_rows(connection: Connection) -> int:
    return sum(connection.scalar(select(func.count()).select_from(table)) or 0 for table in COPIED)


def clear_rows(connection: Connection) -> None:
    """Delete every row of PostgreSQL's that `copy_rows` would write; in one statement, so their order is no matter."""
    connection.execute(text(f"TRUNCATE {', '.join(table.name for table in COPIED)}"))


def _count(connection: Connection, table: Table) -> int:
    """Return the largest row id that *table* has ever given."""
    if connection.dialect.name == "postgresql":
        sequence = connection.scalar(select(_sequence(table)))
        query = text(f"SELECT CASE WHEN is_called THEN last_value ELSE 0 END FROM {sequence}")  # noqa: S608  # Our own.
        return int(connection.scalar(query) or 0)
    query = text("SELECT seq FROM sqlite_sequence WHERE name = :name")
    return int(connection.scalar(query, {"name": table.name}) or 0)


def _set_count(connection: Connection, table: Table, count: int) -> None:
    if connection.dialect.name == "postgresql":
        connection.execute(select(func.setval(_sequence(table), max(count, 1), count > 0)))
        return
    connection.execute(text("DELETE FROM sqlite_sequence WHERE name = :name"), {"name": table.name})
    if count:
        row = {"name": table.name, "count": count}
        connection.execute(text("INSERT INTO sqlite_sequence (name, seq) VALUES (:name, :count)"), row)


def _sequence(table: Table) -> Function[str]:
    """Return the name of PostgreSQL's sequence of *table*'s row ids."""
    return func.pg_get_serial_sequence(table.name, table.primary_key.columns[0].name)
