"""Issuing and revoking credentials, inside the caller's transaction."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING

from steelyard.hub.audit import store as audit
from steelyard.hub.audit.domain import Change
from steelyard.hub.catalog import store as catalog
from steelyard.hub.catalog.domain import ServiceClient
from steelyard.hub.credentials import store
from steelyard.hub.credentials.domain import MOST_LIVE_SECRETS, Credential, NewSecret, new_secret
from steelyard.hub.errors import NotEligible

if TYPE_CHECKING:
    from datetime import datetime
    from uuid import UUID

    from sqlalchemy import Connection

    from steelyard.hub.principal import Actor, Role


def issue(
    connection: Connection, *, role: Role, name: str, actor: Actor, now: datetime, client: ServiceClient | None = None
) -> tuple[Credential, NewSecret]:
    """Make a credential and its secret, which nobody can read again."""
    secret = new_secret(role)
    credential = Credential(
        id=uuid.uuid4(),
        public_id=secret.public_id,
        role=role,
        name=name,
        service_client_id=client.id if client else None,
        created_at=now,
        revoked_at=None,
    )
    store.insert(connection, credential, secret_sha256=secret.sha256)
    project_id = client.project_id if client else None
    change = Change(action="credential.issue", after=credential, project_id=project_id)
    audit.record(connection, change, actor=actor, at=now)
    return credential, secret


def issue_for_client(
    connection: Connection, client_id: UUID, *, name: str, actor: Actor, now: datetime
) -> tuple[Credential, NewSecret]:
    """Make a client's next secret; raises NotEligible where it is revoked or has two live ones."""
    client = catalog.get(connection, ServiceClient, client_id, lock=True)
    if not client.is_active:
        raise NotEligible(f"{client.slug} is revoked and gets no more secrets")
    if len(store.lock_live(connection, service_client_id=client_id)) >= MOST_LIVE_SECRETS:
        raise NotEligible(f"{client.slug} has {MOST_LIVE_SECRETS} live secrets: revoke the one that it no longer uses")
    return issue(connection, role="client", name=name, actor=actor, now=now, client=client)


def revoke(connection: Connection, credential_id: UUID, *, actor: Actor, now: datetime) -> Credential:
    """End a credential; a revoked one stays as it was, and the last live operator's cannot be revoked."""
    before = store.get(connection, credential_id)
    # Operators are locked together and in one order, so that of the last two not both can go.
    operators = store.lock_live(connection, role="operator") if before.role == "operator" else []
    before = store.get(connection, credential_id, lock=True)
    if before.revoked_at is not None:
        return before
    if operators == [before]:
        raise NotEligible("This is the last live operator credential: issue another one first")
    after = store.revoke(connection, before, at=now)
    change = Change(action="credential.revoke", before=before, after=after, project_id=_project_of(connection, before))
    audit.record(connection, change, actor=actor, at=now)
    return after


def _project_of(connection: Connection, credential: Credential) -> UUID | None:
    if credential.service_client_id is None:
        return None
    return catalog.get(connection, ServiceClient, credential.service_client_id).project_id
