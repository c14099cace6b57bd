"""One comparison as the hub keeps it: what it is between, how far it is, and what fences its consumer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from datetime import datetime
    from uuid import UUID

Status = Literal["pending", "running", "cancel_requested", "completed", "failed", "cancelled", "interrupted"]
CLAIMED: frozenset[Status] = frozenset({"running", "cancel_requested"})
ACTIVE: frozenset[Status] = CLAIMED | {"pending"}

CLAIM_EXPIRED = "COMPARISON_CLAIM_EXPIRED"
TARGET_CHANGED = "COMPARISON_TARGET_CHANGED"
RESTORE_INTERRUPTED = "COMPARISON_RESTORE_INTERRUPTED"


@dataclass(frozen=True, kw_only=True)
class Intent:
    """What an operator asks for."""

    project_binding_id: UUID
    consumer_client_id: UUID
    suite_revision_id: UUID
    current_deployment_id: UUID
    candidate_deployment_id: UUID
    candidate_route_id: UUID
    corpus_sha256: str
    retrieval_config_sha256: str
    current_index_ref: str
    candidate_index_ref: str


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """An intent with its pins and its state.

    `input_sha256`, `claim_token_sha256`, `closing_sha256` and `cancelled_version` are for telling retries and callers
    apart; no answer shows them. `version` counts the changes of state, `cancelled_version` is the one that a cancel
    was accepted at, and `closing_sha256` is the digest of the call of the consumer's that ended it.
    """

    id: UUID
    project_id: UUID
    capability: str
    intent: Intent
    idempotency_key: str
    input_sha256: str
    pins: dict[str, Any]
    pins_digest: str
    rule: dict[str, Any]
    case_count: int
    status: Status
    version: int
    created_at: datetime
    claim_token_sha256: str | None = None
    claimed_at: datetime | None = None
    lease_expires_at: datetime | None = None
    deadline_at: datetime | None = None
    current_completed_cases: int = 0
    candidate_completed_cases: int = 0
    cancelled_version: int | None = None
    closing_sha256: str | None = None
    consumer_revision_sha256: str | None = None
    ended_at: datetime | None = None
    error_code: str | None = None

    @property
    def claim_expires_at(self) -> datetime | None:
        """The moment at which the claim ends by itself, None where there is none."""
        if self.lease_expires_at is None or self.deadline_at is None:
            return None
        return min(self.lease_expires_at, self.deadline_at)

    @property
    def is_active(self) -> bool:
        """Whether it may still change."""
        return self.status in ACTIVE
