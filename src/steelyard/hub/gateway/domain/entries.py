"""What the log keeps of one call: never a text, never a vector."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Literal
from uuid import UUID

from steelyard.hub.gateway.domain.targets import CAPABILITY

if TYPE_CHECKING:
    from steelyard.hub.gateway.domain.calls import Call
    from steelyard.hub.gateway.domain.targets import Client, Target

Status = Literal["started", "completed", "failed"]


@dataclass(frozen=True)
class Started:
    """A call that is about to go upstream."""

    request_id: str
    service_client_id: UUID
    credential_id: UUID
    project_binding_id: UUID
    route_id: UUID
    deployment_id: UUID
    capability: str
    input_type: str
    input_sha256: str
    input_count: int


@dataclass(frozen=True)
class Ended:
    """How a started call ended: completed, or failed where it has an error's code.

    *latency_ms* is how long the embedding server took, retries included.
    """

    request_id: str
    latency_ms: float
    tokens: int | None = None
    is_truncated: bool | None = None
    error_code: str | None = None

    @property
    def status(self) -> Status:
        """What the row's status becomes."""
        return "completed" if self.error_code is None else "failed"


Entry = Started | Ended


@dataclass(frozen=True, kw_only=True)
class LoggedRequest:
    """One row of the log. Evidence names it by its *request_id*, which its answer had as x-request-id."""

    request_id: str
    service_client_id: UUID
    credential_id: UUID
    project_binding_id: UUID
    route_id: UUID
    deployment_id: UUID
    capability: str
    input_type: str
    input_sha256: str
    input_count: int
    started_at: datetime
    completed_at: datetime | None
    status: Status
    latency_ms: float | None
    tokens: int | None
    is_truncated: bool | None
    error_code: str | None


def started(call: Call, target: Target, *, client: Client, request_id: str) -> Started:
    """Return the entry with which *call* begins."""
    return Started(
        request_id=request_id,
        service_client_id=client.service_client_id,
        credential_id=client.credential_id,
        project_binding_id=client.project_binding_id,
        route_id=target.route_id,
        deployment_id=target.deployment.id,
        capability=CAPABILITY,
        input_type=call.input_type,
        input_sha256=call.input_sha256,
        input_count=len(call.inputs),
    )
