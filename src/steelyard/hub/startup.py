"""Opening the database, as every command that uses one does, and making the first credential."""

from __future__ import annotations

from steelyard.hub.credentials.service import issue
from steelyard.hub.db import migrate
from steelyard.hub.db.database import Database
from steelyard.hub.principal import LOCAL


def open_database(url: str, *, upgrade: bool) -> Database:
    """Return the database at *url*, brought up to date first where *upgrade* says so; raises StoreError."""
    database = Database(url)
    if upgrade:
        migrate.upgrade(database)
    migrate.require_current(database)
    return database


def init(url: str) -> str:
    """Make the database where there is none, and return a new operator's secret."""
    database = open_database(url, upgrade=True)
    with database.write() as connection:
        _credential, secret = issue(
            connection, role="operator", name="hub init", actor=LOCAL, now=database.now(connection)
        )
    database.close()
    return secret.text
