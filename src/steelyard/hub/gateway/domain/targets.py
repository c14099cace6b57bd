"""Where a model name leads: from a client's route over its deployment to a runtime and an embedding identity."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from steelyard.hall.texts import shorten
from steelyard.hub.gateway.domain.errors import CallerForbidden, ModelNotFound

if TYPE_CHECKING:
    from uuid import UUID

    from steelyard.hub.principal import Principal

CAPABILITY = "rag.embedding@1"
_SLUG = re.compile(r"[a-z0-9.-]{1,64}")


@dataclass(frozen=True)
class Client:
    """A service client that may use the gateway."""

    credential_id: UUID
    service_client_id: UUID
    project_binding_id: UUID


@dataclass(frozen=True)
class Runtime:
    """What runs the model; *base_url* includes the version, such as http://127.0.0.1:8080/v1."""

    id: UUID
    base_url: str
    on_overlong: str
    key_variable: str | None
    timeout_s: float


@dataclass(frozen=True)
class Identity:
    """What the vectors are."""

    dimension: int
    max_length: int
    query_prompt: str
    document_prompt: str


@dataclass(frozen=True)
class Deployment:
    """What serves a route: the *served_model* of one runtime."""

    id: UUID
    slug: str
    capability: str
    is_active: bool
    served_model: str
    allows_truncation: bool
    runtime: Runtime
    identity: Identity


@dataclass(frozen=True)
class Lead:
    """How far a model name leads from a client's binding: what is not there is None."""

    is_binding_active: bool
    route_id: UUID | None
    is_route_active: bool | None
    deployment: Deployment | None


@dataclass(frozen=True)
class Target:
    """A route that leads to a deployment, all active."""

    route_id: UUID
    deployment: Deployment


def require_client(caller: Principal) -> Client:
    """Return the client that calls; raises CallerForbidden for other roles and without the capability."""
    if caller.role != "client" or caller.service_client_id is None or caller.project_binding_id is None:
        raise CallerForbidden(f"The embedding gateway takes a service client's credential, and this one's role is "
                              f"{caller.role}")  # fmt: skip
    if CAPABILITY not in caller.capabilities:
        raise CallerForbidden(f"This service client may not use {CAPABILITY}; an operator can grant it")
    return Client(
        credential_id=caller.credential_id,
        service_client_id=caller.service_client_id,
        project_binding_id=caller.project_binding_id,
    )


def slug_of(model: str) -> str:
    """Return *model* where a route could have this slug; else an empty text, which none has."""
    return model if _SLUG.fullmatch(model) else ""


def require_target(lead: Lead | None, *, model: str) -> Target:
    """Return where *lead* ends; raises ModelNotFound, which says what is missing."""
    name = f"The model {shorten(model)!r}"
    if lead is None or not lead.is_binding_active:
        raise ModelNotFound(f"{name} cannot be used: your project's binding is not active; ask an operator")
    if lead.route_id is None:
        raise ModelNotFound(f"{name} is none of your routes; GET /v1/models lists them")
    if not lead.is_route_active:
        raise ModelNotFound(f"{name} is a route that is not active; GET /v1/models lists those that are")
    return Target(route_id=lead.route_id, deployment=_deployment(lead.deployment, name=name))


def _deployment(deployment: Deployment | None, *, name: str) -> Deployment:
    if deployment is None:
        raise ModelNotFound(f"{name} leads to no deployment yet; an operator must choose the binding's current one")
    if not deployment.is_active:
        raise ModelNotFound(f"{name} leads to the deployment {deployment.slug}, which is retired; ask an operator")
    if deployment.capability != CAPABILITY:
        raise ModelNotFound(f"{name} leads to a deployment of {deployment.capability}, which embeds nothing")
    return deployment
