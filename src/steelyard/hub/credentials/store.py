"""Credential rows; the hash of a secret leaves this module only to be compared."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from sqlalchemy import bindparam, select, update

from steelyard.hub.credentials.domain import Credential, is_secret
from steelyard.hub.db.locks import locked
from steelyard.hub.db.tables import credentials, service_clients
from steelyard.hub.errors import UnknownThing
from steelyard.hub.principal import Principal

if TYPE_CHECKING:
    from datetime import datetime
    from uuid import UUID

    from sqlalchemy import Connection, Row

_SHOWN = [column for column in credentials.c if column is not credentials.c.secret_sha256]
# It runs for every request, and building it would take as long as running it.
_FIND_HOLDER = (
    select(credentials, service_clients.c.is_active, service_clients.c.project_binding_id)
    .add_columns(service_clients.c.capabilities)
    .outerjoin(service_clients, credentials.c.service_client_id == service_clients.c.id)
    .where(credentials.c.public_id == bindparam("sent_id"))
)


def insert(connection: Connection, credential: Credential, *, secret_sha256: str) -> None:
    """Add a credential."""
    connection.execute(credentials.insert().values(**vars(credential), secret_sha256=secret_sha256))


def get(connection: Connection, credential_id: UUID, *, lock: bool = False) -> Credential:
    """Return one credential; raises UnknownThing."""
    query = select(*_SHOWN).where(credentials.c.id == credential_id)
    row = connection.execute(locked(query) if lock else query).first()
    if row is None:
        raise UnknownThing("No credential has this id")
    return Credential(**row._mapping)


def live(connection: Connection) -> list[Credential]:
    """Return every live credential, newest first."""
    query = select(*_SHOWN).where(credentials.c.revoked_at.is_(None))
    query = query.order_by(credentials.c.created_at.desc(), credentials.c.id.desc())
    return [Credential(**row._mapping) for row in connection.execute(query)]


def lock_live(connection: Connection, **where: object) -> list[Credential]:
    """Return the live credentials whose columns have these values, their rows locked in one order."""
    query = select(*_SHOWN).filter_by(**where).where(credentials.c.revoked_at.is_(None))
    query = locked(query.order_by(credentials.c.id))
    return [Credential(**row._mapping) for row in connection.execute(query)]


def page(connection: Connection, *, limit: int, offset: int, **where: object) -> list[Credential]:
    """Return *limit* credentials after *offset*, newest first, and one more where there is one."""
    query = select(*_SHOWN).filter_by(**where).order_by(credentials.c.created_at.desc(), credentials.c.id.desc())
    return [Credential(**row._mapping) for row in connection.execute(query.limit(limit + 1).offset(offset))]


def with_public_id(connection: Connection, public_id: str) -> Credential:
    """Return the credential that secrets name by *public_id*; raises UnknownThing."""
    row = connection.execute(select(*_SHOWN).where(credentials.c.public_id == public_id)).first()
    if row is None:
        raise UnknownThing("No credential has this public id")
    return Credential(**row._mapping)


def revoke(connection: Connection, credential: Credential, *, at: datetime) -> Credential:
    """End a credential, whose row is locked, for good."""
    connection.execute(update(credentials).where(credentials.c.id == credential.id).values(revoked_at=at))
    return replace(credential, revoked_at=at)


def principal_of(connection: Connection, public_id: str, *, sent: str) -> Principal | None:
    """Return who holds the secret *sent*, or None where it is wrong, revoked, or its client is."""
    row = connection.execute(_FIND_HOLDER, {"sent_id": public_id}).first()
    # The comparison is made for an unknown id too, so that its time does not tell the two apart.
    is_right = is_secret(sent, stored_sha256=row.secret_sha256 if row else None)
    return _principal(row) if row and is_right and _is_live(row) else None


def _is_live(row: Row[tuple[object, ...]]) -> bool:
    return row.revoked_at is None and (row.service_client_id is None or row.is_active)


def _principal(row: Row[tuple[object, ...]]) -> Principal:
    return Principal(
        role=row.role,
        credential_id=row.id,
        public_id=row.public_id,
        service_client_id=row.service_client_id,
        project_binding_id=row.project_binding_id,
        capabilities=frozenset(row.capabilities or ()),
    )
