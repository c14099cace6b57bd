"""Backups: one SQLite file, whichever database it was taken from, with a mark that tells a restore.

It is consistent while hubs serve: it shows one moment. So that a backup of PostgreSQL needs no other program, is read
by any version of the server, and can be restored to SQLite, its rows are copied into a file of the same schema.
"""

from __future__ import annotations

import errno
import os
import sqlite3
import uuid
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING

from sqlalchemy.engine import URL

from steelyard.hub.db import epoch, migrate
from steelyard.hub.db.database import Database, open_file
from steelyard.hub.db.errors import BackupFailed, BackupRefused, StoreCorrupt, StoreFull
from steelyard.hub.db.failures import meaning_of
from steelyard.hub.db.sidecar import flush_folder
from steelyard.hub.db.tables import store_epochs, store_marks
from steelyard.hub.db.transfer import copy_rows

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from sqlalchemy import Connection

    from steelyard.hub.db.transfer import Progress

_PAGES = 512


def take(database: Database, path: Path, *, replaces: bool = False, on_progress: Progress) -> None:
    """Write a backup of *database* to *path*, which has its name only when it is whole and on the disk.

    Raises BackupRefused where there is such a file and *replaces* is not said, or another StoreError.
    """
    migrate.require_current(database)
    if path.exists() and not replaces:
        raise BackupRefused("There is a file of that name already: name another one, or say --force to replace it")
    if not path.parent.is_dir():
        raise BackupRefused("There is no such folder to write the backup in")
    part = path.with_name(f"{path.name}.part")
    if not database.is_postgresql and {path.resolve(), part.resolve()} & set(files_of(database.path)):
        raise BackupRefused("That is the database itself, or belongs to it: name another file")
    with disk_errors():
        remove(part)
        try:
            if database.is_postgresql:
                _copy_rows(database, part, on_progress=on_progress)
            else:
                copy_pages(database.path, part, on_progress=on_progress)
            finish(part)
            part.replace(path)
            flush_folder(path.parent)
        finally:
            remove(part)


def database_at(path: Path) -> Database:
    """Return the SQLite database in the file at *path*."""
    return Database(URL.create("sqlite", database=str(path)))


def copy_pages(source: Path, target: Path, *, mode: str = "rw", on_progress: Progress) -> None:
    """Copy the SQLite database at *source* page by page, as it is at one moment; raises OSError or sqlite3.Error."""
    os.close(os.open(target, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
    with closing(open_file(source, mode=mode)) as reading, closing(open_file(target)) as writing:
        # One moment for all pages: without it, each write to the source would start the copy anew.
        reading.execute("BEGIN")
        reading.execute("SELECT count(*) FROM sqlite_schema").fetchone()
        reading.backup(writing, pages=_PAGES, progress=lambda _status, left, total: on_progress(total - left, total))


def finish(path: Path) -> None:
    """Mark the database at *path* unless it has a mark, check it, and leave it as one file that is on the disk."""
    database = database_at(path)
    with database.write() as connection:
        _mark(connection, database)
    database.close()
    with closing(open_file(path)) as connection:
        # `Database` works with a log beside the file.
        connection.execute("PRAGMA journal_mode = DELETE")
        require_whole(connection)
    with path.open("rb") as file:
        os.fsync(file.fileno())


def require_whole(connection: sqlite3.Connection) -> None:
    """Return if every page of the database is sound; raises StoreCorrupt."""
    if connection.execute("PRAGMA quick_check").fetchone()[0] != "ok":
        raise StoreCorrupt


def files_of(path: Path) -> list[Path]:
    """Return the database at *path* and what may lie beside it."""
    return [path.with_name(path.name + ending) for ending in ("", "-wal", "-shm", "-journal", ".lock", ".epoch")]


def remove(path: Path) -> None:
    """Remove the database at *path* and what lies beside it, where they are there."""
    for file in files_of(path):
        file.unlink(missing_ok=True)


@contextmanager
def disk_errors() -> Iterator[None]:
    """Turn what the disk or the SQLite driver raises into our errors."""
    try:
        yield
    except sqlite3.Error as error:
        raise meaning_of(error) or BackupFailed(f"SQLite failed: {error}") from error
    except OSError as error:
        if error.errno in {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}:
            raise StoreFull("The disk that the file would be on is full") from error
        raise BackupFailed(f"A file cannot be read or written: {error.strerror}") from error


def _mark(connection: Connection, database: Database) -> None:
    if connection.execute(store_marks.select()).first() is not None:
        return
    present = epoch.current(connection)
    row = {
        "backup_id": uuid.uuid4(),
        "taken_at": database.now(connection),
        "epoch_id": present.epoch_id if present else uuid.UUID(int=0),
    }
    connection.execute(store_marks.insert().values(row))


def _copy_rows(database: Database, path: Path, *, on_progress: Progress) -> None:
    target = database_at(path)
    try:
        migrate.upgrade(target)
        with database.read() as reading, target.alter() as writing:
            copy_rows(reading, writing, on_progress=on_progress)
            writing.execute(store_epochs.update().values(place=None))
    finally:
        target.close()
