"""Opening the database, as every command that uses one does, and credentials without a credential."""

from __future__ import annotations

from contextlib import closing, contextmanager
from typing import TYPE_CHECKING

from steelyard.hub.comparisons.service import interrupt_all
from steelyard.hub.credentials import service, store
from steelyard.hub.credentials.domain import public_id_in
from steelyard.hub.db import migrate
from steelyard.hub.db.database import Database
from steelyard.hub.db.errors import SchemaAbsent, StoreMissing
from steelyard.hub.db.opening import open_store
from steelyard.hub.principal import LOCAL

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from steelyard.hub.credentials.domain import Credential
    from steelyard.hub.db.epoch import Hook

# What a restore of the database ends, in the transaction that records it.
ON_RESTORED: Sequence[Hook] = (interrupt_all,)


def open_database(url: str, *, upgrade: bool) -> Database:
    """Return the database at *url*, brought up to date first where *upgrade* says so; raises StoreError."""
    return open_store(url, is_upgraded=upgrade, on_restored=ON_RESTORED)


def init(url: str) -> str:
    """Make the database where there is none, and return a new operator's secret.

    One that is there is never upgraded by this: a hub may be serving from it.
    """
    try:
        return _new_operator(url)
    except (StoreMissing, SchemaAbsent):
        open_database(url, upgrade=True).close()
        return _new_operator(url)


def live_credentials(url: str) -> list[Credential]:
    """Return every credential that is not revoked, the newest first."""
    with _present(url) as database, database.read() as connection:
        return store.live(connection)


def revoke_locally(url: str, sent: str) -> Credential:
    """End the credential that *sent*, a public id or a whole secret, names; raises UnknownThing."""
    with _present(url) as database, database.write() as connection:
        credential = store.with_public_id(connection, public_id_in(sent))
        return service.revoke(connection, credential.id, actor=LOCAL, now=database.now(connection))


def _new_operator(url: str) -> str:
    with _present(url) as database, database.write() as connection:
        _credential, secret = service.issue(
            connection, role="operator", name="hub init", actor=LOCAL, now=database.now(connection)
        )
    return secret.text


@contextmanager
def _present(url: str) -> Iterator[Database]:
    """Give a database as it is: a restore is for the next start to notice."""
    with closing(Database(url)) as database:
        migrate.require_current(database)
        yield database
