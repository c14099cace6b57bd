"""What drivers' errors mean."""

from __future__ import annotations

import sqlite3

import psycopg
import pytest
from psycopg import errors as postgresql

from steelyard.hub.db.errors import (
    ConstraintViolated,
    StoreBusy,
    StoreCorrupt,
    StoreFull,
    StoreReadOnly,
    StoreUnavailable,
    UniqueViolated,
)
from steelyard.hub.db.failures import meaning_of


def sqlite_error(code: int, text: str = "") -> sqlite3.Error:
    error = sqlite3.OperationalError(text)
    error.sqlite_errorcode = code
    return error


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        (sqlite3.SQLITE_BUSY, StoreBusy),
        (sqlite3.SQLITE_BUSY_SNAPSHOT, StoreBusy),
        (sqlite3.SQLITE_LOCKED_SHAREDCACHE, StoreBusy),
        (sqlite3.SQLITE_READONLY_DIRECTORY, StoreReadOnly),
        (sqlite3.SQLITE_FULL, StoreFull),
        (sqlite3.SQLITE_IOERR_WRITE, StoreFull),
        (sqlite3.SQLITE_IOERR_READ, StoreUnavailable),
        (sqlite3.SQLITE_CANTOPEN, StoreUnavailable),
        (sqlite3.SQLITE_CORRUPT_INDEX, StoreCorrupt),
        (sqlite3.SQLITE_NOTADB, StoreCorrupt),
        (sqlite3.SQLITE_CONSTRAINT_CHECK, ConstraintViolated),
        (sqlite3.SQLITE_CONSTRAINT_FOREIGNKEY, ConstraintViolated),
        (sqlite3.SQLITE_CONSTRAINT_UNIQUE, UniqueViolated),
    ],
)
def test_sqlites_codes_have_a_meaning(code, kind):
    assert type(meaning_of(sqlite_error(code))) is kind


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (postgresql.LockNotAvailable, StoreBusy),
        (postgresql.QueryCanceled, StoreBusy),
        (postgresql.DeadlockDetected, StoreBusy),
        (postgresql.SerializationFailure, StoreBusy),
        (postgresql.IdleInTransactionSessionTimeout, StoreBusy),
        (postgresql.TooManyConnections, StoreBusy),
        (postgresql.OutOfMemory, StoreBusy),
        (postgresql.DiskFull, StoreFull),
        (postgresql.ReadOnlySqlTransaction, StoreReadOnly),
        (postgresql.AdminShutdown, StoreUnavailable),
        (postgresql.CannotConnectNow, StoreUnavailable),
        (postgresql.ConnectionFailure, StoreUnavailable),
        (postgresql.InvalidPassword, StoreUnavailable),
        (postgresql.IoError, StoreUnavailable),
        (postgresql.DataCorrupted, StoreCorrupt),
        (postgresql.IndexCorrupted, StoreCorrupt),
        (postgresql.CheckViolation, ConstraintViolated),
        (postgresql.UniqueViolation, UniqueViolated),
        (psycopg.OperationalError, StoreUnavailable),
    ],
)
def test_postgresqls_states_have_a_meaning(error, kind):
    assert type(meaning_of(error())) is kind


@pytest.mark.parametrize(
    "error",
    [
        postgresql.SyntaxError(), postgresql.UndefinedTable(), postgresql.InternalError_(), psycopg.ProgrammingError(),
        sqlite_error(sqlite3.SQLITE_ERROR), sqlite_error(sqlite3.SQLITE_MISUSE), sqlite3.ProgrammingError("closed"),
        ValueError(), None,
    ],
)  # fmt: skip
def test_a_fault_of_the_calling_code_has_none(error):
    assert meaning_of(error) is None


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("UNIQUE constraint failed: projects.slug", "uq_projects_slug"),
        ("UNIQUE constraint failed: suites.project_id, suites.slug", "uq_suites_project_id_slug"),
        ("UNIQUE constraint failed: index 'uq_partial'", "uq_partial"),
        ("UNIQUE constraint failed: projects.name", None),
        ("UNIQUE constraint failed: elsewhere.slug", None),
        ("in words of another version", None),
    ],
)
def test_a_unique_rule_of_sqlites_is_found_by_its_columns(text, name):
    meaning = meaning_of(sqlite_error(sqlite3.SQLITE_CONSTRAINT_UNIQUE, text))
    assert isinstance(meaning, UniqueViolated)
    assert meaning.constraint == name


def test_no_message_has_the_drivers_words():
    error = sqlite_error(sqlite3.SQLITE_CANTOPEN, "/srv/secret/hub.db")
    assert "secret" not in str(meaning_of(error))
