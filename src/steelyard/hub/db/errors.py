"""Everything that can go wrong with the hub's store: each has a sentence and a stable code.

StoreError
├── BadDatabaseUrl
├── StoreUnavailable        unreachable, gone, or refusing the login
│   └── StoreMissing        no such file
├── StoreBusy               worth another try: locked, too many connections, a deadlock, too slow
├── StoreFull
├── StoreReadOnly
├── StoreCorrupt
├── ConstraintViolated
│   └── UniqueViolated
├── SchemaRefused           the start is refused
│   ├── SchemaAbsent
│   ├── SchemaBehind
│   ├── SchemaAhead
│   ├── LineageForeign
│   └── SchemaChanged
├── DowngradeRefused
├── StoreServed             a hub serves from the database
├── BackupRefused           nothing was written
├── BackupFailed
├── RestoreRefused
└── CheckFailed

A message names no user, no password, no host and no path, so any edge may show it; the driver's own words are its
cause, for the log.
"""

from __future__ import annotations

from typing import ClassVar

from steelyard.hall.errors import SteelyardError


class StoreError(SteelyardError):
    """The hub's database failed."""

    code: ClassVar[str] = "store_error"


class BadDatabaseUrl(StoreError):
    """The database's URL cannot be used."""

    code: ClassVar[str] = "bad_database_url"


class StoreUnavailable(StoreError):
    """The database cannot be reached."""

    code: ClassVar[str] = "store_unavailable"


class StoreMissing(StoreUnavailable):
    """There is no such database; `steelyard hub init` makes one."""

    code: ClassVar[str] = "store_missing"


class StoreBusy(StoreError):
    """The database is busy; try again."""

    code: ClassVar[str] = "store_busy"


class StoreFull(StoreError):
    """The database's disk takes no more: it is full, over a quota, or failing."""

    code: ClassVar[str] = "store_full"


class StoreReadOnly(StoreError):
    """The database cannot be written: it, or its file or folder, is read-only."""

    code: ClassVar[str] = "store_read_only"


class StoreCorrupt(StoreError):
    """The database is damaged; keep its files as they are and restore a backup."""

    code: ClassVar[str] = "store_corrupt"


class ConstraintViolated(StoreError):
    """A rule of the database refused the change.

    *constraint* is its name, where the database gives one.
    """

    code: ClassVar[str] = "constraint_violated"

    def __init__(self, message: str | None = None, *, constraint: str | None = None) -> None:
        super().__init__(message)
        self.constraint = constraint


class UniqueViolated(ConstraintViolated):
    """The database has such a row already.

    *constraint* is the name that the rule has in `tables`.
    """

    code: ClassVar[str] = "unique_violated"


class SchemaRefused(StoreError):
    """The database's schema is not the one that this version works with."""

    code: ClassVar[str] = "schema_refused"


class SchemaAbsent(SchemaRefused):
    """The database is empty; `steelyard hub db upgrade` makes its tables."""

    code: ClassVar[str] = "schema_absent"


class SchemaBehind(SchemaRefused):
    """The database is older than this version; take a backup, then run `steelyard hub db upgrade`."""

    code: ClassVar[str] = "schema_behind"


class SchemaAhead(SchemaRefused):
    """The database was written by a newer version; start that version, or restore a backup that this one knows."""

    code: ClassVar[str] = "schema_ahead"


class LineageForeign(SchemaRefused):
    """The database was not made by this product's migrations."""

    code: ClassVar[str] = "lineage_foreign"


class SchemaChanged(SchemaRefused):
    """The database's tables are not as its migrations left them: something else changed them."""

    code: ClassVar[str] = "schema_changed"


class DowngradeRefused(StoreError):
    """The downgrade would delete history."""

    code: ClassVar[str] = "downgrade_refused"


class StoreServed(StoreError):
    """A hub serves from this database; stop it first."""

    code: ClassVar[str] = "store_served"


class BackupRefused(StoreError):
    """The backup cannot be written there."""

    code: ClassVar[str] = "backup_refused"


class BackupFailed(StoreError):
    """The backup could not be written."""

    code: ClassVar[str] = "backup_failed"


class RestoreRefused(StoreError):
    """The backup cannot be restored."""

    code: ClassVar[str] = "restore_refused"


class CheckFailed(StoreError):
    """The database did not pass the check."""

    code: ClassVar[str] = "check_failed"
