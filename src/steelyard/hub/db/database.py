"""One database, SQLite or PostgreSQL: how a transaction begins, what time it is, and the one place that commits.

Every error that a driver raises on these connections becomes one of ours (`errors`), where it is raised.
"""

from __future__ import annotations

import os
import sqlite3
import stat
import threading
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

from sqlalchemy import Engine, NullPool, QueuePool, create_engine, event, func, select
from sqlalchemy.exc import TimeoutError as PoolTimeoutError

from steelyard.hub.db.errors import StoreBusy, StoreMissing, StoreReadOnly, StoreUnavailable
from steelyard.hub.db.failures import meaning_of
from steelyard.hub.db.urls import read_url, shown

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from sqlalchemy import URL, Connection, ExceptionContext

_WAL_LIMIT_BYTES = 64 << 20  # What the write-ahead log is cut to after a burst.


def utc_now() -> datetime:
    """Return the process's time, with its zone."""
    return datetime.now(UTC)


@dataclass(frozen=True)
class Limits:
    """How many connections, and how long anything may wait; what takes longer is StoreBusy or StoreUnavailable."""

    pool_size: int = 8
    wait_s: float = 10.0  # For a connection of the pool, for a lock, and for SQLite's other writers.
    statement_s: float = 30.0  # On PostgreSQL; 0 is no limit.
    idle_s: float = 60.0  # In a transaction of PostgreSQL's that its process has forgotten.
    connect_s: int = 5


class Database:
    """The engines of one database.

    Reads and writes go through engines of their own: a write on SQLite begins with BEGIN IMMEDIATE, since a plain BEGIN
    that writes later fails with "database is locked" under load whatever the timeout, and only one thread of this
    process tries it at a time. Nothing connects before the first block is entered.
    """

    def __init__(
        self, url: str | URL, *, clock: Callable[[], datetime] = utc_now, limits: Limits | None = None
    ) -> None:
        self.url = read_url(url)
        self.is_postgresql = self.url.get_backend_name() == "postgresql"
        self._clock = clock
        self._limits = limits or Limits()
        self._write_lock = threading.Lock()

    @property
    def shown(self) -> str:
        """Which database this is, for the operator's own terminal; without user and password."""
        return shown(self.url)

    @property
    def path(self) -> Path:
        """The file of a SQLite database."""
        return Path(str(self.url.database))

    @contextmanager
    def read(self) -> Iterator[Connection]:
        """Give a connection that sees one state of the database and cannot change it."""
        with _pool_waits(), self._reader.connect() as connection:
            yield connection

    @contextmanager
    def write(self) -> Iterator[Connection]:
        """Give a connection whose changes are committed together at the end, or not at all if the block raises.

        After a ConstraintViolated the block is lost: leave it, or try inside `connection.begin_nested()`.
        """
        with self._writing(), _pool_waits(), self._writer.begin() as connection:
            yield connection

    @contextmanager
    def alter(self) -> Iterator[Connection]:
        """Give a connection as `write` does, for a change of the schema: without limits on its time.

        On SQLite foreign keys are not enforced meanwhile, since tables may have to be rebuilt; check them at the end.
        """
        engine = self._engine(begin="BEGIN IMMEDIATE", is_altering=True)
        try:
            with self._writing(), engine.begin() as connection:
                yield connection
        finally:
            engine.dispose()

    @contextmanager
    def session(self) -> Iterator[Connection]:
        """Give a connection of PostgreSQL's without a transaction, whose locks last until the block ends."""
        engine = self._engine(begin="BEGIN", is_altering=True).execution_options(isolation_level="AUTOCOMMIT")
        try:
            with engine.connect() as connection:
                yield connection
        finally:
            engine.dispose()

    def make_file(self) -> None:
        """Make a SQLite database's file and its folder, for this account alone, where they are missing."""
        if self.is_postgresql:
            return
        try:
            # A file that is there is not even opened: closing it would drop the locks of this process's connections.
            if self.path.exists():
                return
            self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            os.close(os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
        except PermissionError as error:
            raise StoreReadOnly("This account may not write the database's file or its folder") from error
        except OSError as error:
            raise StoreUnavailable(f"The database's file cannot be made: {error.strerror}") from error

    def now(self, connection: Connection) -> datetime:
        """Return the time that decides: PostgreSQL's own clock as of this call, or the process's beside SQLite."""
        if self.is_postgresql:
            moment: datetime = connection.execute(select(func.clock_timestamp())).scalar_one()
            return moment.astimezone(UTC)
        return self._clock()

    def close(self) -> None:
        """Close every connection."""
        for engine in (self.__dict__.get("_reader"), self.__dict__.get("_writer")):
            if engine is not None:
                engine.dispose()

    @contextmanager
    def _writing(self) -> Iterator[None]:
        """Let one thread of this process at a time write SQLite; any number write PostgreSQL."""
        if self.is_postgresql:
            yield
            return
        if not self._write_lock.acquire(timeout=self._limits.wait_s):
            raise StoreBusy
        try:
            yield
        finally:
            self._write_lock.release()

    @cached_property
    def _reader(self) -> Engine:
        return self._engine(begin="BEGIN", is_reading=True)

    @cached_property
    def _writer(self) -> Engine:
        return self._engine(begin="BEGIN IMMEDIATE")

    def _engine(self, *, begin: str, is_reading: bool = False, is_altering: bool = False) -> Engine:
        if self.is_postgresql:
            engine = _postgresql(self.url, self._limits, is_reading=is_reading, is_altering=is_altering)
        else:
            engine = _sqlite(self.path, self._limits, begin=begin, is_reading=is_reading, is_altering=is_altering)
        event.listen(engine, "handle_error", _translate)
        return engine


def _postgresql(url: URL, limits: Limits, *, is_reading: bool, is_altering: bool) -> Engine:
    settings = {
        "lock_timeout": "0" if is_altering else f"{limits.wait_s}s",
        "statement_timeout": "0" if is_altering else f"{limits.statement_s}s",
        "idle_in_transaction_session_timeout": "0" if is_altering else f"{limits.idle_s}s",
        "timezone": "UTC",
        **({"default_transaction_read_only": "on"} if is_reading else {}),
        "synchronous_commit": "on",  # Whatever the server's default is: what was answered is on its disk.
    }
    own = str(url.query.get("options", ""))
    options = " ".join([own, *(f"-c {name}={value}" for name, value in settings.items())]).strip()
    arguments = {"connect_timeout": limits.connect_s, "options": options, "application_name": "steelyard hub"}
    isolation = "REPEATABLE READ" if is_reading else "READ COMMITTED"
    if is_altering:
        return create_engine(url, poolclass=NullPool, isolation_level=isolation, connect_args=arguments)
    return create_engine(
        url,
        pool_size=limits.pool_size,
        max_overflow=0,
        pool_timeout=limits.wait_s,
        pool_pre_ping=True,
        isolation_level=isolation,
        connect_args=arguments,
    )


def _sqlite(path: Path, limits: Limits, *, begin: str, is_reading: bool, is_altering: bool) -> Engine:
    def connect() -> sqlite3.Connection:
        return _connect_sqlite(path, wait_s=limits.wait_s, is_reading=is_reading, is_altering=is_altering)

    if is_altering:
        engine = create_engine("sqlite://", creator=connect, poolclass=NullPool)
    else:
        size = limits.pool_size if is_reading else 1
        engine = create_engine(
            "sqlite://",
            creator=connect,
            poolclass=QueuePool,
            pool_size=size,
            max_overflow=0,
            pool_timeout=limits.wait_s,
        )
    event.listen(engine, "begin", lambda connection: connection.exec_driver_sql(begin))
    return engine


def _connect_sqlite(path: Path, *, wait_s: float, is_reading: bool, is_altering: bool) -> sqlite3.Connection:
    """Open the file, which must be there already: an empty database in a wrong place would hide the real one."""
    _require_file(path)
    connection = open_file(path, wait_s=wait_s)
    pragmas = {
        "busy_timeout": int(wait_s * 1000),  # Before journal_mode, which may have to wait.
        **({} if is_reading else {"journal_mode": "WAL"}),  # It changes the file, which may not even be a hub's.
        "synchronous": "FULL",
        "foreign_keys": "OFF" if is_altering else "ON",
        "trusted_schema": "OFF",
        "journal_size_limit": _WAL_LIMIT_BYTES,
        "query_only": "ON" if is_reading else "OFF",
    }
    try:
        for name, value in pragmas.items():
            connection.execute(f"PRAGMA {name} = {value}")
        if not is_reading:
            _require_wal(connection)
    except BaseException:
        connection.close()
        raise
    return connection


def open_file(path: Path, *, mode: str = "rw", wait_s: float = 10.0) -> sqlite3.Connection:
    """Open a SQLite file that is there, with the driver alone; *mode* is rw or ro. Raises sqlite3.Error."""
    return sqlite3.connect(
        f"file:{quote(str(path))}?mode={mode}",
        uri=True,
        timeout=wait_s,
        isolation_level=None,  # The driver would begin transactions of its own.
        check_same_thread=False,
    )


def _require_file(path: Path) -> None:
    try:
        mode = path.stat().st_mode
    except (FileNotFoundError, NotADirectoryError):
        raise StoreMissing from None
    except OSError as error:
        raise StoreUnavailable(f"The database's file cannot be opened: {error.strerror}") from None
    if not stat.S_ISREG(mode):
        raise StoreUnavailable("The database's path leads to a folder or a device, not to a file")


def _require_wal(connection: sqlite3.Connection) -> None:
    if connection.execute("PRAGMA journal_mode").fetchone()[0] != "wal":
        raise StoreUnavailable("The database's folder cannot hold a write-ahead log; put it on a local disk")


@contextmanager
def _pool_waits() -> Iterator[None]:
    try:
        yield
    except PoolTimeoutError as error:
        raise StoreBusy from error


def _translate(context: ExceptionContext) -> None:
    """Raise our error in place of the driver's, with the driver's as its cause."""
    if context.is_pre_ping:  # The pool's own question to an idle connection; it answers itself with a new one.
        return
    meaning = meaning_of(context.original_exception)
    if meaning is not None:
        raise meaning from context.original_exception
