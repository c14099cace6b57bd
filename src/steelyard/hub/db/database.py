"""One database, SQLite or PostgreSQL: how a transaction begins, what time it is, and the one place that commits."""

from __future__ import annotations

import threading
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from sqlalchemy import Engine, create_engine, event, func, select
from sqlalchemy.engine import make_url

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Callable, Iterator

    from sqlalchemy import URL, Connection

_BUSY_TIMEOUT_MS = 10_000
_POOL_SIZE = 8


def utc_now() -> datetime:
    """Return the process's time, with its zone."""
    return datetime.now(UTC)


class Database:
    """The engines of one database.

    Reads and writes go through engines of their own: a write on SQLite begins with BEGIN IMMEDIATE, since a plain BEGIN
    that writes later fails with "database is locked" under load whatever the timeout, and only one thread of this
    process tries it at a time.
    """

    def __init__(self, url: str | URL, *, clock: Callable[[], datetime] = utc_now) -> None:
        self.url = make_url(url)
        self.is_postgresql = self.url.get_backend_name() == "postgresql"
        self._clock = clock
        self._write_lock = threading.Lock()
        self._reader = _engine(self.url, begin="BEGIN", pool_size=_POOL_SIZE)
        self._writer = _engine(self.url, begin="BEGIN IMMEDIATE", pool_size=_POOL_SIZE if self.is_postgresql else 1)

    @contextmanager
    def read(self) -> Iterator[Connection]:
        """Give a connection that sees one state of the database; what it writes is rolled back."""
        with self._reader.connect() as connection:
            yield connection

    @contextmanager
    def write(self) -> Iterator[Connection]:
        """Give a connection whose changes are committed together at the end, or not at all if the block raises."""
        if self.is_postgresql:
            with self._writer.begin() as connection:
                yield connection
        else:
            with self._write_lock, self._writer.begin() as connection:
                yield connection

    def now(self, connection: Connection) -> datetime:
        """Return the time that decides: PostgreSQL's own clock as of this call, or the process's beside SQLite."""
        if self.is_postgresql:
            moment: datetime = connection.execute(select(func.clock_timestamp())).scalar_one()
            return moment.astimezone(UTC)
        return self._clock()

    def close(self) -> None:
        """Close every connection."""
        self._reader.dispose()
        self._writer.dispose()


def _engine(url: URL, *, begin: str, pool_size: int) -> Engine:
    if url.get_backend_name() == "postgresql":
        isolation = "READ COMMITTED" if begin == "BEGIN IMMEDIATE" else "REPEATABLE READ"
        return create_engine(url, pool_size=pool_size, pool_pre_ping=True, isolation_level=isolation)
    engine = create_engine(url, pool_size=pool_size, max_overflow=0, connect_args={"check_same_thread": False})
    event.listen(engine, "connect", _prepare_sqlite)
    event.listen(engine, "begin", lambda connection: connection.exec_driver_sql(begin))
    return engine


def _prepare_sqlite(connection: sqlite3.Connection, _record: Any) -> None:
    connection.isolation_level = None  # The driver would begin transactions of its own.
    cursor = connection.cursor()
    cursor.execute(f"PRAGMA busy_timeout = {_BUSY_TIMEOUT_MS}")  # Before journal_mode, which may have to wait.
    cursor.execute("PRAGMA journal_mode = WAL")
    cursor.execute("PRAGMA synchronous = FULL")
    cursor.execute("PRAGMA foreign_keys = ON")
    cursor.close()
