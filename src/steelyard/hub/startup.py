"""Opening the database, as every command that uses one does, and making the first credential."""

from __future__ import annotations

from typing import TYPE_CHECKING

from steelyard.hub.credentials.service import issue
from steelyard.hub.db.opening import open_store
from steelyard.hub.principal import LOCAL

if TYPE_CHECKING:
    from collections.abc import Sequence

    from steelyard.hub.db.database import Database
    from steelyard.hub.db.epoch import Hook

# What a restore of the database ends, in the transaction that records it.
ON_RESTORED: Sequence[Hook] = ()


def open_database(url: str, *, upgrade: bool) -> Database:
    """Return the database at *url*, brought up to date first where *upgrade* says so; raises StoreError."""
    return open_store(url, is_upgraded=upgrade, on_restored=ON_RESTORED)


def init(url: str) -> str:
    """Make the database where there is none, and return a new operator's secret."""
    database = open_database(url, upgrade=True)
    with database.write() as connection:
        _credential, secret = issue(
            connection, role="operator", name="hub init", actor=LOCAL, now=database.now(connection)
        )
    database.close()
    return secret.text
