"""Restoring a backup, over nothing or over what is then kept aside.

The backup is first copied, checked and brought to this version's schema beside its place; only then is anything
replaced, at once. The mark in it makes the next start begin a new epoch.
"""

from __future__ import annotations

import os
import sqlite3
import tempfile
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from steelyard.hub.db import backup, migrate
from steelyard.hub.db.backup import database_at, disk_errors
from steelyard.hub.db.database import open_file, utc_now
from steelyard.hub.db.errors import RestoreRefused, SchemaRefused, StoreCorrupt, StoreError
from steelyard.hub.db.lineage import current_revision
from steelyard.hub.db.serving import alone
from steelyard.hub.db.sidecar import flush_folder
from steelyard.hub.db.transfer import clear_rows, copy_rows, has_rows

if TYPE_CHECKING:
    from collections.abc import Sequence

    from steelyard.hub.db.database import Database
    from steelyard.hub.db.transfer import Progress


class Restored(NamedTuple):
    """What a restore did: where the old data lies now, if there was any, and the revisions that the backup lacked."""

    kept: Path | None
    upgraded: Sequence[str]


def restore(database: Database, path: Path, *, replaces: bool = False, on_progress: Progress) -> Restored:
    """Put the backup at *path* in the place of *database*, which no hub may serve from meanwhile.

    Raises RestoreRefused where *path* is no backup of this product's, or where there is data and *replaces* is not
    said; StoreServed; or another StoreError. Nothing has changed then.
    """
    with disk_errors():
        if not path.is_file():
            raise RestoreRefused("There is no such backup")
        if database.is_postgresql:
            return _restore_rows(database, path, replaces=replaces, on_progress=on_progress)
        return _restore_file(database, path, replaces=replaces, on_progress=on_progress)


def _restore_file(database: Database, path: Path, *, replaces: bool, on_progress: Progress) -> Restored:
    place = database.path
    place.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    work = place.with_name(f"{place.name}.restoring")
    if path.resolve() == work:
        raise RestoreRefused(
            "The file is what an interrupted restore left, and goes with the next one: name the backup"
        )
    with alone(database):
        is_kept = _has_data(database)
        if is_kept and not replaces:
            raise RestoreRefused(_OVER_DATA)
        backup.remove(work)
        try:
            upgraded = _prepare(path, work, on_progress=on_progress)
            kept = _set_aside(place) if is_kept else None
            if kept is None:
                _remove_log(place)
            work.replace(place)
            flush_folder(place.parent)
        finally:
            backup.remove(work)
    return Restored(kept=kept, upgraded=upgraded)


def _restore_rows(database: Database, path: Path, *, replaces: bool, on_progress: Progress) -> Restored:
    migrate.upgrade(database)
    kept = None
    if _has_data(database):
        if not replaces:
            raise RestoreRefused(_OVER_DATA)
        kept = path.with_name(f"replaced-{_stamp()}.db")
    with tempfile.TemporaryDirectory(prefix="steelyard-") as folder:
        work = Path(folder) / "restoring.db"
        upgraded = _prepare(path, work, on_progress=_untold)
        prepared = database_at(work)
        with alone(database):
            if kept is not None:
                backup.take(database, kept, on_progress=_untold)
            with prepared.read() as reading, database.alter() as writing:
                clear_rows(writing)
                copy_rows(reading, writing, on_progress=on_progress)
        prepared.close()
    return Restored(kept=kept, upgraded=upgraded)


def _prepare(path: Path, work: Path, *, on_progress: Progress) -> Sequence[str]:
    """Copy the backup to *work*, bring it to this version's schema and mark it; return the revisions that it lacked."""
    try:
        backup.copy_pages(path, work, mode="ro", on_progress=on_progress)
        with closing(open_file(work)) as connection:
            backup.require_whole(connection)
    except (StoreCorrupt, sqlite3.DatabaseError) as error:
        raise RestoreRefused("The file is no backup of a hub, or it is damaged") from error
    copy = database_at(work)
    try:
        with copy.read() as connection:
            if current_revision(connection) is None:
                raise RestoreRefused("The file is no backup of a hub: it has no tables")
        upgraded = migrate.upgrade(copy)
        migrate.require_current(copy)
    except SchemaRefused as error:
        raise RestoreRefused(f"The file cannot be restored here. {error}") from error
    finally:
        copy.close()
    backup.finish(work)
    return upgraded


def _has_data(database: Database) -> bool:
    """Tell whether there is data; a file that cannot be read counts as data, for it may be saved yet."""
    if not database.is_postgresql and not database.path.exists():
        return False
    try:
        with database.read() as connection:
            return has_rows(connection)
    except StoreError:
        if database.is_postgresql:
            raise
        return True
    finally:
        database.close()


def _set_aside(place: Path) -> Path:
    """Give the old file another name beside *place*, and leave *place* without a log of its own."""
    kept = place.with_name(f"{place.name}.replaced-{_stamp()}")
    # The log goes first: one that lies beside another database would be played into it.
    for ending in ("-wal", "-shm"):
        log = place.with_name(place.name + ending)
        if log.exists():
            log.rename(kept.with_name(kept.name + ending))
    os.link(place, kept)  # The old file keeps its name too until the new one takes it.
    return kept


def _remove_log(place: Path) -> None:
    for ending in ("-wal", "-shm"):
        place.with_name(place.name + ending).unlink(missing_ok=True)


def _stamp() -> str:
    return utc_now().strftime("%Y%m%dT%H%M%S.%fZ")


def _untold(_done: int, _total: int) -> None:
    """Show nothing: the rows that are copied in the end are shown."""


_OVER_DATA = "The database has data: restore to another one, or say --force to replace it; the old data is kept aside"
