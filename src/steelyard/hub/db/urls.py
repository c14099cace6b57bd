"""Which databases the hub takes: a SQLite file, or PostgreSQL through psycopg."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from sqlalchemy.engine import make_url
from sqlalchemy.exc import ArgumentError

from steelyard.hub.db.errors import BadDatabaseUrl

if TYPE_CHECKING:
    from sqlalchemy import URL

_DRIVERS = {
    "sqlite": "sqlite",
    "sqlite+pysqlite": "sqlite",
    "postgres": "postgresql+psycopg",
    "postgresql": "postgresql+psycopg",
    "postgresql+psycopg": "postgresql+psycopg",
}


def read_url(text: str | URL) -> URL:
    """Return the URL as the engines take it; raises BadDatabaseUrl, whose message has no part of *text*."""
    try:
        url = make_url(text)
    except (ArgumentError, ValueError):
        raise BadDatabaseUrl(
            "The database's URL cannot be read: write sqlite:///FILE or postgresql://USER:PASSWORD@HOST/NAME, with "
            "%40 for an @ in a password"
        ) from None
    if url.drivername not in _DRIVERS:
        raise BadDatabaseUrl("The hub's database is a SQLite file (sqlite:///FILE) or PostgreSQL (postgresql://...)")
    url = url.set(drivername=_DRIVERS[url.drivername])
    if url.drivername == "sqlite":
        return _sqlite(url)
    if not url.database:
        raise BadDatabaseUrl("The PostgreSQL URL names no database: write postgresql://USER:PASSWORD@HOST/NAME")
    try:
        url.get_dialect()().create_connect_args(url)
    except (ArgumentError, ValueError):  # Such as hosts and ports that do not go together.
        raise BadDatabaseUrl("The PostgreSQL URL's host, port or options cannot be read") from None
    return url


def _sqlite(url: URL) -> URL:
    if not url.database or url.database == ":memory:" or url.host or url.query:
        raise BadDatabaseUrl("A SQLite database is a file, and its URL takes no options: write sqlite:///FILE")
    if "\x00" in url.database:
        raise BadDatabaseUrl("The SQLite file's path holds a NUL character")
    try:
        path = Path(url.database).expanduser()
    except RuntimeError:
        raise BadDatabaseUrl(
            "The SQLite file's path begins with a home directory that is not known: write it out"
        ) from None
    # The file itself, not a link to it: its log, lock and sidecar lie beside it, by whichever name it is opened.
    return url.set(database=os.path.realpath(path))


def shown(url: URL) -> str:
    """Return what may be said of *url* on the operator's own terminal: which database, and nothing secret."""
    if url.drivername == "sqlite":
        return str(url.database)
    return f"PostgreSQL database {url.database} at {url.host or url.query.get('host', 'the local socket')}"
