"""What the audit trail keeps of a change: a whitelist of fields, so that no secret can enter."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

# By the thing's class. What is not listed is not kept, a new field included.
FIELDS: dict[str, tuple[str, ...]] = {
    "Project": ("slug", "name"),
    "ProjectBinding": ("capability", "channel", "is_active", "current_deployment_id", "version"),
    "ServiceClient": ("slug", "name", "project_binding_id", "capabilities", "is_active", "version"),
    "Credential": ("public_id", "role", "name", "service_client_id", "revoked_at"),
    "Artifact": ("slug", "source", "revision", "files"),
    "Runtime": ("slug", "kind", "base_url", "on_overlong", "key_variable", "timeout_s"),
    "EmbeddingIdentity": ("slug", "model", "dimension", "pooling", "is_normalized", "max_length", "dtype"),
    "Deployment": (
        "slug", "capability", "artifact_id", "runtime_id", "embedding_identity_id", "served_model", "stage",
        "allows_truncation", "is_active", "version",
    ),
    "Route": ("project_binding_id", "slug", "kind", "deployment_id", "is_active", "version"),
    "Suite": ("slug", "name"),
    "Comparison": ("capability", "pins_digest", "status", "version", "consumer_revision_sha256", "error_code"),
    "SuiteRevision": ("suite_id", "number", "digest", "retrieval_config_sha256", "case_count"),
}  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class AuditEvent:
    """One change: who did what to what, from which state to which, when, with which request."""

    id: int
    at: datetime
    actor_role: str
    actor: str
    action: str
    subject_kind: str
    subject_id: str
    project_id: UUID | None
    before: dict[str, Any] | None
    after: dict[str, Any] | None
    request_id: str | None


@dataclass(frozen=True, kw_only=True)
class Change:
    """A change to a thing of one of the classes in FIELDS; *before* is None for a new thing."""

    action: str
    before: Any | None = None
    after: Any
    project_id: UUID | None


def kept_of(thing: object | None) -> dict[str, Any] | None:
    """Return the whitelisted fields of *thing* as JSON values; raises KeyError for a class without a whitelist."""
    if thing is None:
        return None
    fields = FIELDS[type(thing).__name__]
    return {name: _plain(getattr(thing, name)) for name in fields}


def _plain(value: object) -> object:
    if isinstance(value, datetime):
        return value.isoformat()
    return str(value) if isinstance(value, UUID) else value
