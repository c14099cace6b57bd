"""What a driver's error means: one table for SQLite's result codes, one for PostgreSQL's SQLSTATE.

No text of a driver is read, with one exception: SQLite names the columns of a violated rule nowhere else.
"""

from __future__ import annotations

import re
import sqlite3
from typing import TYPE_CHECKING

import psycopg
from sqlalchemy import PrimaryKeyConstraint, UniqueConstraint

from steelyard.hub.db.errors import (
    ConstraintViolated,
    StoreBusy,
    StoreCorrupt,
    StoreError,
    StoreFull,
    StoreReadOnly,
    StoreUnavailable,
    UniqueViolated,
)
from steelyard.hub.db.tables import metadata

if TYPE_CHECKING:
    from collections.abc import Mapping

_PRIMARY_CODE = 0xFF  # SQLite's extended result codes carry the primary one in their lowest byte.
_BY_RESULT_CODE: Mapping[int, type[StoreError]] = {
    sqlite3.SQLITE_PERM: StoreUnavailable,
    sqlite3.SQLITE_BUSY: StoreBusy,
    sqlite3.SQLITE_LOCKED: StoreBusy,
    sqlite3.SQLITE_READONLY: StoreReadOnly,
    sqlite3.SQLITE_IOERR: StoreUnavailable,
    sqlite3.SQLITE_CORRUPT: StoreCorrupt,
    sqlite3.SQLITE_FULL: StoreFull,
    sqlite3.SQLITE_CANTOPEN: StoreUnavailable,
    sqlite3.SQLITE_PROTOCOL: StoreBusy,
    sqlite3.SQLITE_NOTADB: StoreCorrupt,
    sqlite3.SQLITE_CONSTRAINT: ConstraintViolated,
    # A quota or a limit on a file's size is an input and output error to SQLite, and not SQLITE_FULL.
    sqlite3.SQLITE_IOERR_WRITE: StoreFull,
    sqlite3.SQLITE_IOERR_SHMSIZE: StoreFull,
    sqlite3.SQLITE_CONSTRAINT_UNIQUE: UniqueViolated,
    sqlite3.SQLITE_CONSTRAINT_PRIMARYKEY: UniqueViolated,
    sqlite3.SQLITE_CONSTRAINT_ROWID: UniqueViolated,
}
# Whole states first, then their classes, which are the first two characters.
_BY_STATE: Mapping[str, type[StoreError]] = {
    "23505": UniqueViolated,
    "25006": StoreReadOnly,
    "40001": StoreBusy,
    "40P01": StoreBusy,
    "53100": StoreFull,
    "55P03": StoreBusy,
    "57014": StoreBusy,
    "25P03": StoreBusy,
    "57P01": StoreUnavailable,
    "57P02": StoreUnavailable,
    "57P03": StoreUnavailable,
    "57P05": StoreUnavailable,
    "58030": StoreUnavailable,
    "08": StoreUnavailable,
    "23": ConstraintViolated,
    "28": StoreUnavailable,
    "53": StoreBusy,
    "XX": StoreCorrupt,
}
_INTERNAL_ERROR = "XX000"  # Any fault inside PostgreSQL or an extension of it, not damage.
_SQLITE_COLUMNS = re.compile(r"^UNIQUE constraint failed: (\w+)\.(.+)$")
_SQLITE_INDEX = re.compile(r"^UNIQUE constraint failed: index '(\w+)'$")


def meaning_of(error: BaseException | None) -> StoreError | None:
    """Return what *error*, which a driver raised, is to us; None where it is a fault of the calling code."""
    if isinstance(error, sqlite3.Error):
        return _meaning_on_sqlite(error)
    if isinstance(error, psycopg.Error):
        return _meaning_on_postgresql(error)
    return None


def _meaning_on_sqlite(error: sqlite3.Error) -> StoreError | None:
    code = getattr(error, "sqlite_errorcode", None)
    if code is None:  # The driver's own complaint, about parameters or a closed connection.
        return None
    kind = _BY_RESULT_CODE.get(code) or _BY_RESULT_CODE.get(code & _PRIMARY_CODE)
    if kind is None:
        return None
    if code == sqlite3.SQLITE_NOTADB:
        return kind("The file is no SQLite database, or its beginning is damaged; see whether it is the right file")
    if issubclass(kind, ConstraintViolated):
        return kind(constraint=_constraint_on_sqlite(str(error)) if kind is UniqueViolated else None)
    return kind()


def _constraint_on_sqlite(text: str) -> str | None:
    """Return the name of the unique rule that *text* is about; SQLite names an index, or its table and columns."""
    if by_index := _SQLITE_INDEX.match(text):
        return by_index.group(1)
    by_columns = _SQLITE_COLUMNS.match(text)
    if by_columns is None or by_columns.group(1) not in metadata.tables:
        return None
    table = metadata.tables[by_columns.group(1)]
    columns = by_columns.group(2).replace(f"{table.name}.", "").split(", ")
    keys = [rule for rule in table.constraints if isinstance(rule, UniqueConstraint | PrimaryKeyConstraint)]
    indexes = [index for index in table.indexes if index.unique]
    names = [rule.name for rule in (*keys, *indexes) if [column.name for column in rule.columns] == columns]
    return str(names[0]) if names else None


def _meaning_on_postgresql(error: psycopg.Error) -> StoreError | None:
    state = error.sqlstate
    if state is None:  # No server answered. The driver's other faults without a state are the caller's.
        return StoreUnavailable() if isinstance(error, psycopg.OperationalError) else None
    if state == _INTERNAL_ERROR:
        return None
    kind = _BY_STATE.get(state) or _BY_STATE.get(state[:2])
    if kind is None:
        return None
    return kind(constraint=error.diag.constraint_name) if issubclass(kind, ConstraintViolated) else kind()
