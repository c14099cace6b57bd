"""Who uses a database: each hub that serves from it says so, and what needs it alone is refused meanwhile.

On SQLite it is a lock on a file beside the database, never on the database's own, whose locks SQLite would lose. On
PostgreSQL it is an advisory lock of a connection of its own, which needs a session of the server (no pooler that shares
one between transactions).
"""

from __future__ import annotations

import fcntl
import logging
import os
import threading
import time
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING

from sqlalchemy import func, select, text

from steelyard.hub.db import epoch
from steelyard.hub.db.errors import StoreError, StoreMissing, StoreReadOnly, StoreServed, StoreUnavailable

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from sqlalchemy import Connection

    from steelyard.hub.db.database import Database

logger = logging.getLogger("steelyard.hub")
ADVISORY_LOCK = 0x5354_4545_4C59_4102
_BEAT_S = 60.0
_PAUSE_S = 0.1
_PATIENCE_S = 10.0  # Of a start beside others, each of which has the database alone while it looks for its schema.
_WANTED_ALONE = "Another command has this database for itself; wait until it has ended"


@contextmanager
def serving(database: Database, *, beat_s: float = _BEAT_S, patience_s: float = _PATIENCE_S) -> Iterator[None]:
    """Hold *database* as one of those that serve from it, and count its beats, until the block ends.

    Raises StoreServed where another command has it alone for longer than *patience_s*.
    """
    with ExitStack() as stack:
        if not database.is_postgresql:
            stack.enter_context(_file_lock(database.path, fcntl.LOCK_SH, patience_s=patience_s))
        keeper = _Keeper(database, beat_s=beat_s)
        stack.callback(keeper.stop)
        keeper.start(patience_s=patience_s)
        _require_same(database)
        yield


def _require_same(database: Database) -> None:
    """Return if nobody restored the database since this process opened it; from now on nobody can."""
    database.close()  # A connection that is open already would show a replaced file's old content.
    with database.read() as connection:
        if epoch.why_restored(database, connection) is not None:
            raise StoreUnavailable("The database was restored while this hub started; start it again")


class _Keeper:
    """A thread that counts beats, and on PostgreSQL holds the lock and takes it again where its connection broke."""

    def __init__(self, database: Database, *, beat_s: float) -> None:
        self._database = database
        self._beat_s = beat_s
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._keep, name="store-keeper", daemon=True)
        self._session: ExitStack | None = None
        self._connection: Connection | None = None

    def start(self, *, patience_s: float) -> None:
        """Take the lock, and keep it; raises StoreServed where another has the database alone for so long."""
        ends = time.monotonic() + patience_s
        while not self._has_lock():
            if time.monotonic() >= ends:
                raise StoreServed(_WANTED_ALONE)
            time.sleep(_PAUSE_S)
        self._thread.start()

    def stop(self) -> None:
        """Let go; the last beat tells what this hub has left from any copy that was taken while it served."""
        self._is_over.set()
        if self._thread.is_alive():
            self._thread.join()
        self._beat()
        self._drop_session()

    def _keep(self) -> None:
        while not self._is_over.wait(self._beat_s):
            self._beat()

    def _beat(self) -> None:
        try:
            if not self._has_lock():
                raise StoreServed(_WANTED_ALONE)
            epoch.beat(self._database)
        except StoreError as error:
            logger.warning("The store's beat failed and is tried again: %s", error)

    def _has_lock(self) -> bool:
        """Take the lock unless it is held already; tell whether it is held now."""
        if not self._database.is_postgresql or self._is_holding():
            return True
        self._drop_session()
        session = ExitStack()
        connection = session.enter_context(self._database.session())
        if not connection.scalar(select(func.pg_try_advisory_lock_shared(ADVISORY_LOCK))):
            session.close()
            return False
        self._session, self._connection = session, connection
        return True

    def _is_holding(self) -> bool:
        try:
            return self._connection is not None and self._connection.scalar(text("SELECT 1")) == 1
        except StoreError:
            return False

    def _drop_session(self) -> None:
        session, self._session, self._connection = self._session, None, None
        if session is not None:
            session.close()


@contextmanager
def alone(database: Database) -> Iterator[None]:
    """Keep every hub from serving from *database* until the block ends; raises StoreServed where one does.

    Where another block has it alone, this waits for its end.
    """
    if not database.is_postgresql:
        with _file_lock(database.path, fcntl.LOCK_EX):
            yield
        return
    with database.session() as connection:
        while not connection.scalar(select(func.pg_try_advisory_lock(ADVISORY_LOCK))):
            if connection.scalar(select(func.pg_try_advisory_lock_shared(ADVISORY_LOCK))):
                raise StoreServed
            time.sleep(_PAUSE_S)
        yield


@contextmanager
def _file_lock(database: Path, kind: int, *, patience_s: float = 0.0) -> Iterator[None]:
    path = database.with_name(f"{database.name}.lock")
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except FileNotFoundError as error:
        raise StoreMissing from error
    except OSError as error:
        raise StoreReadOnly("This account may not write in the database's folder") from error
    try:
        ends = time.monotonic() + patience_s
        while not _is_locked(descriptor, kind):
            if kind == fcntl.LOCK_SH and time.monotonic() >= ends:
                raise StoreServed(_WANTED_ALONE)
            if kind == fcntl.LOCK_EX and _is_locked(descriptor, fcntl.LOCK_SH):
                raise StoreServed
            time.sleep(_PAUSE_S)
        yield
    finally:
        os.close(descriptor)


def _is_locked(descriptor: int, kind: int) -> bool:
    try:
        fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
