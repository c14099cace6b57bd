"""Which life of the data this is: an epoch ends where the database is restored, whoever restored it and however.

A restored database must not go on as if nothing had happened: work that was claimed after the backup is unknown to it.
It is recognised by the mark that our backups carry; a SQLite file by a sidecar that is missing, names another epoch or
has counted further; PostgreSQL by the names that it gives its cluster, its history and our table, one of which changes
when a cluster is copied, when it is wound back or when the tables are loaded from a dump.
"""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, NamedTuple
from uuid import UUID

from sqlalchemy import func, select, text

from steelyard.hub.db import sidecar
from steelyard.hub.db.errors import StoreUnavailable
from steelyard.hub.db.sidecar import Sidecar
from steelyard.hub.db.tables import audit_events, store_epochs, store_marks

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from datetime import datetime

    from sqlalchemy import Connection

    from steelyard.hub.db.database import Database

    # What else a restore ends: each is called with the transaction that records it, and the time.
    Hook = Callable[[Connection, datetime], None]

_ADVISORY_LOCK = 0x5354_4545_4C59_4103
_PLACE = text(
    "SELECT (SELECT system_identifier FROM pg_control_system()) || '/' || "
    "substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8) || '/' || "
    "(SELECT oid FROM pg_database WHERE datname = current_database()) || '/' || 'store_epochs'::regclass::oid"
)


class Epoch(NamedTuple):
    """One life of the data; *cause* is `created` or `restored`."""

    number: int
    epoch_id: UUID
    cause: str
    began_at: datetime
    place: str | None
    beat: int


def current(connection: Connection) -> Epoch | None:
    """Return the epoch that the rows are in; None before the first."""
    row = connection.execute(select(store_epochs).order_by(store_epochs.c.number.desc()).limit(1)).first()
    return Epoch(**row._mapping) if row else None


def why_restored(database: Database, connection: Connection) -> str | None:
    """Return the reason for which *database* is taken to have been restored since its epoch began, if there is one."""
    epoch = current(connection)
    mark = connection.execute(select(store_marks).limit(1)).first()
    if mark is not None:
        return f"it carries the mark of the backup of {mark.taken_at.isoformat(timespec='seconds')}"
    if epoch is None:
        return None
    if database.is_postgresql:
        is_moved = epoch.place != _place(database, connection)
        return "it is not where it was: its cluster, its history or its tables are others" if is_moved else None
    return _why_by_sidecar(epoch, _sidecar(database))


def _why_by_sidecar(epoch: Epoch, seen: Sidecar | None) -> str | None:
    if seen is None:
        return "the file that says its epoch is missing"
    if seen.epoch_id != epoch.epoch_id:
        return "the file that says its epoch names another one"
    # A crash between the commit and the file leaves the file behind, never ahead.
    return "it is older than when it was last used" if seen.beat > epoch.beat else None


def begin(database: Database, *, on_restored: Sequence[Hook] = ()) -> str | None:
    """Begin to use *database*: notice a restore, record it and begin a new epoch, or count a beat in the present one.

    Returns the reason where it was restored; *on_restored* has then run in the same transaction. Of several processes
    that start at once, one notices.
    """
    with database.write() as connection:
        if database.is_postgresql:
            connection.execute(select(func.pg_advisory_xact_lock(_ADVISORY_LOCK)))
        reason = why_restored(database, connection)
        epoch = current(connection)
        now = database.now(connection)
        if epoch is None or reason is not None:
            after = _begin(database, connection, before=epoch, reason=reason, at=now)
        else:
            after = _beat(connection, epoch)
        if reason is not None:
            for hook in on_restored:
                hook(connection, now)
    _leave_sidecar(database, after)
    return reason


def beat(database: Database) -> None:
    """Count a beat, so that an older copy of a SQLite file can be told from it. PostgreSQL needs none."""
    if database.is_postgresql:
        return
    with database.write() as connection:
        epoch = current(connection)
        after = _beat(connection, epoch) if epoch else None
    if after is not None:
        _leave_sidecar(database, after)


def _begin(
    database: Database, connection: Connection, *, before: Epoch | None, reason: str | None, at: datetime
) -> Epoch:
    after = Epoch(
        number=before.number + 1 if before else 1,
        epoch_id=uuid.uuid4(),
        cause="created" if reason is None else "restored",
        began_at=at,
        place=_place(database, connection),
        beat=1,
    )
    connection.execute(store_epochs.insert().values(**after._asdict()))
    connection.execute(store_marks.delete())
    if reason is not None:
        _audit(connection, before=before, after=after, reason=reason)
    return after


def _audit(connection: Connection, *, before: Epoch | None, after: Epoch, reason: str) -> None:
    connection.execute(
        audit_events.insert().values(
            at=after.began_at,
            actor_role="local",
            actor="local",
            action="store.restored",
            subject_kind="Store",
            subject_id=str(after.epoch_id),
            before={"epoch_id": str(before.epoch_id), "number": before.number} if before else None,
            after={"epoch_id": str(after.epoch_id), "number": after.number, "reason": reason},
        )
    )


def _beat(connection: Connection, epoch: Epoch) -> Epoch:
    after = epoch._replace(beat=epoch.beat + 1)
    connection.execute(store_epochs.update().where(store_epochs.c.number == epoch.number).values(beat=after.beat))
    return after


def _place(database: Database, connection: Connection) -> str | None:
    return str(connection.scalar(_PLACE)) if database.is_postgresql else None


def _sidecar(database: Database) -> Sidecar | None:
    try:
        return sidecar.read(database.path)
    except OSError as error:
        raise StoreUnavailable(f"The file that says the database's epoch cannot be read: {error.strerror}") from error


def _leave_sidecar(database: Database, epoch: Epoch) -> None:
    """Write the sidecar after the commit, unless another thread or process has written a later one meanwhile."""
    if database.is_postgresql:
        return
    try:
        with sidecar.writing(database.path):
            seen = _sidecar(database)
            if seen is None or seen.epoch_id != epoch.epoch_id or seen.beat < epoch.beat:
                sidecar.write(database.path, Sidecar(epoch_id=epoch.epoch_id, beat=epoch.beat))
    except OSError as error:
        raise StoreUnavailable(
            f"The file that says the database's epoch cannot be written: {error.strerror}"
        ) from error
