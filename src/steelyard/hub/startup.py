"""Opening the database, as every command that uses one does, and credentials without a credential."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from steelyard.hub.credentials import service, store
from steelyard.hub.credentials.domain import public_id_in
from steelyard.hub.db import migrate
from steelyard.hub.db.database import Database
from steelyard.hub.db.errors import SchemaAbsent, StoreMissing
from steelyard.hub.principal import LOCAL

if TYPE_CHECKING:
    from collections.abc import Iterator

    from steelyard.hub.credentials.domain import Credential


def open_database(url: str, *, upgrade: bool) -> Database:
    """Return the database at *url*, brought up to date first where *upgrade* says so; raises StoreError."""
    database = Database(url)
    if upgrade:
        migrate.upgrade(database)
    migrate.require_current(database)
    return database


def init(url: str) -> str:
    """Make the database where there is none, and return a new operator's secret.

    One that is there is never upgraded by this: a hub may be serving from it.
    """
    try:
        database = open_database(url, upgrade=False)
    except (StoreMissing, SchemaAbsent):
        database = open_database(url, upgrade=True)
    with database.write() as connection:
        _credential, secret = service.issue(
            connection, role="operator", name="hub init", actor=LOCAL, now=database.now(connection)
        )
    database.close()
    return secret.text


def live_credentials(url: str) -> list[Credential]:
    """Return every credential that is not revoked, the newest first."""
    with _opened(url) as database, database.read() as connection:
        return store.live(connection)


def revoke_locally(url: str, sent: str) -> Credential:
    """End the credential that *sent*, a public id or a whole secret, names; raises UnknownThing."""
    with _opened(url) as database, database.write() as connection:
        credential = store.with_public_id(connection, public_id_in(sent))
        return service.revoke(connection, credential.id, actor=LOCAL, now=database.now(connection))


@contextmanager
def _opened(url: str) -> Iterator[Database]:
    database = open_database(url, upgrade=False)
    try:
        yield database
    finally:
        database.close()
