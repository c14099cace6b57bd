"""Who calls the hub."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal
from uuid import UUID

Role = Literal["viewer", "operator", "client"]


@dataclass(frozen=True, kw_only=True)
class Principal:
    """The holder of a live credential; only a service client has the last three."""

    role: Role
    credential_id: UUID
    public_id: str
    service_client_id: UUID | None = None
    project_binding_id: UUID | None = None
    capabilities: frozenset[str] = frozenset()


@dataclass(frozen=True, kw_only=True)
class Actor:
    """Who the audit trail names.

    A credential's public id, `local` for a command on the hub's own machine, or `hub` for what no caller has decided.
    """

    role: Role | Literal["local", "hub"]
    name: str
    request_id: str | None


LOCAL = Actor(role="local", name="local", request_id=None)
HUB = Actor(role="hub", name="hub", request_id=None)
