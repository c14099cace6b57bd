"""What requests about comparisons look like, and the answers, which show of a comparison what anybody may know."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import (
    TYPE_CHECKING,
    Annotated,
    Any,
    Literal,
    NotRequired,
    Self,
)
from uuid import UUID

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, StringConstraints, model_validator
from typing_extensions import TypedDict  # Python's own is enough for pydantic from 3.12 on.

from steelyard.hub.comparisons.domain.capability import Outcome
from steelyard.hub.comparisons.domain.comparison import Comparison, Intent, Status
from steelyard.hub.comparisons.domain.evidence import Report
from steelyard.hub.comparisons.domain.protocol import DEADLINE, call_digest
from steelyard.hub.comparisons.publication import Reported
from steelyard.hub.rest.breaches import MOST_BREACHES
from steelyard.hub.rest.fields import Body, CountFirst, Name, Sha256, example
from steelyard.hub.rest.paging import MOST_ITEMS, PageQuery
from steelyard.hub.rest.patterns import CASE_KEY, ERROR_CODE, IDEMPOTENCY_KEY, REQUEST_ID
from steelyard.hub.suites.domain import MOST_CASES
from steelyard.hub.suites.schemas import ChunkId

if TYPE_CHECKING:
    from collections.abc import Sequence

    from steelyard.hub.comparisons.domain.capability import Capability
    from steelyard.hub.suites.domain import Case, SuiteRevision

_ID = "5b1f0f0e-8a55-4c0e-9a2f-3f4f6f3d2c11"
_DIGEST = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"
TOKEN_EXAMPLE = "steelyard_claim_…"  # noqa: S105  # It shows the form and can be nobody's.
MOST_RANKED = 100
_LONGEST_MS = DEADLINE / timedelta(milliseconds=1)


def _has_few_names(results: Any) -> Any:
    """Refuse a result of very many names before they are looked at one by one, for the reason that Body has."""
    if isinstance(results, list) and any(isinstance(item, dict) and len(item) > MOST_BREACHES for item in results):
        raise ValueError("has a result with many names that are no fields of one")
    return results


def _once_each(results: list[RankedResult]) -> list[RankedResult]:
    if len({result["chunk_id"] for result in results}) < len(results):
        raise ValueError("names a chunk_id twice; rank is the order of the list, and each chunk has one")
    for result in results:
        result.setdefault("document_id", None)  # Absent as null.
    return results


ErrorCode = Annotated[
    str, StringConstraints(pattern=ERROR_CODE), Field(description="1 to 64 of A-Z, 0-9 and _, a letter first.")
]
Number = Annotated[float, Field(strict=True, allow_inf_nan=False)]
Count = Annotated[int, Field(ge=0, le=MOST_CASES, strict=True)]
RequestId = Annotated[
    str,
    StringConstraints(pattern=REQUEST_ID),
    Field(description="The x-request-id of the gateway's answer."),
]
# One spelling, so that no case can be named twice.
CaseKey = Annotated[str, StringConstraints(pattern=CASE_KEY)]
Requests = Annotated[dict[CaseKey, RequestId], Field(max_length=MOST_CASES), CountFirst()]
Token = Annotated[str, Field(min_length=1, max_length=200, description="The claim's token.")]


class NewComparison(Body):
    """A comparison of a binding's current deployment with one candidate, for its consumer to carry out."""

    model_config = example(
        project_binding_id=_ID,
        consumer_client_id=_ID,
        suite_revision_id=_ID,
        current_deployment_id=_ID,
        candidate_deployment_id=_ID,
        candidate_route_id=_ID,
        corpus_sha256=_DIGEST,
        retrieval_config_sha256=_DIGEST,
        current_index_ref="faq-minilm-l6",
        candidate_index_ref="faq-minilm-l3",
        idempotency_key="faq-l6-l3-2026-12-01",
    )

    project_binding_id: UUID
    consumer_client_id: UUID = Field(description="The service client that may claim it.")
    suite_revision_id: UUID
    current_deployment_id: UUID = Field(description="The binding's current deployment.")
    candidate_deployment_id: UUID
    candidate_route_id: UUID = Field(description="An active experiment route of the binding to the candidate.")
    corpus_sha256: Sha256
    retrieval_config_sha256: Sha256 = Field(description="That of the suite revision.")
    current_index_ref: Name
    candidate_index_ref: Name = Field(description="Another index than the current one.")
    idempotency_key: Annotated[str, StringConstraints(pattern=IDEMPOTENCY_KEY)] = Field(
        description="Chosen by the caller for this attempt; the same key with the same input is the same comparison."
    )

    @model_validator(mode="after")
    def _has_two_indexes(self) -> Self:
        if self.current_index_ref == self.candidate_index_ref:
            raise ValueError("current_index_ref and candidate_index_ref must name two indexes")
        return self

    def intent(self) -> Intent:
        """Return the domain's intent."""
        return Intent(**self.model_dump(exclude={"idempotency_key"}))


class HistoryQuery(PageQuery):
    """Comparisons."""

    project_binding_id: UUID | None = None


class AssignedQuery(BaseModel):
    """What a consumer has to do."""

    model_config = ConfigDict(extra="forbid")

    limit: int = Field(50, ge=1, le=MOST_ITEMS, description="Most items in the answer.")


class ClaimRequest(Body):
    """Nothing: a claim needs no body."""


class Progress(Body):
    """A heartbeat: it renews the lease. Counts may stay as they are, and never fall."""

    model_config = example(claim_token=TOKEN_EXAMPLE, current_completed_cases=12, candidate_completed_cases=0)

    claim_token: Token
    current_completed_cases: Count
    candidate_completed_cases: Count


class Finish(Body):
    """The end of a claim without a result."""

    model_config = example(claim_token=TOKEN_EXAMPLE, outcome="failed", error_code="CONSUMER_SHUTDOWN")

    claim_token: Token
    outcome: Literal["failed", "cancelled"] = Field(description="`cancelled` only where a cancel was requested.")
    error_code: ErrorCode | None = None

    @model_validator(mode="after")
    def _has_code_of_failure(self) -> Self:
        if self.outcome == "cancelled" and self.error_code is not None:
            raise ValueError("error_code says why a comparison failed; a cancelled one has none")
        return self

    @property
    def sha256(self) -> str:
        """The digest by which a repeat is told."""
        return call_digest("finish", self.model_dump(mode="json", exclude={"claim_token"}))


class RankedResult(TypedDict):
    """One result of a ranking. A body may have 20,000 of them, so it is a dict and no model."""

    __pydantic_config__ = ConfigDict(extra="forbid")  # type: ignore[misc]  # Pydantic reads it here.

    chunk_id: ChunkId
    document_id: NotRequired[ChunkId | None]
    score: Number


class CaseResult(Body):
    """What one leg gave for one case. A failed case has an error_code and no ranking."""

    case_id: UUID
    ranked_results: Annotated[
        list[RankedResult],
        Field(max_length=MOST_RANKED, fail_fast=True),
        BeforeValidator(_has_few_names),
        AfterValidator(_once_each),
    ] = Field(description="Best first; never sorted again.")
    latency_ms: Annotated[Number, Field(ge=0, le=_LONGEST_MS)] = Field(description="No longer than a claim can last.")
    error_code: ErrorCode | None = None

    @model_validator(mode="after")
    def _is_failed_or_ranked(self) -> Self:
        if self.error_code is not None and self.ranked_results:
            raise ValueError("a case with an error_code must have an empty ranking")
        return self

    def outcome(self) -> Outcome:
        """Return the domain's outcome."""
        return Outcome(
            case_id=self.case_id,
            answer=self.ranked_results,
            latency_ms=self.latency_ms,
            error_code=self.error_code,
        )


class ReportedLeg(Body):
    """One leg's results: one for each case of the suite revision."""

    results: list[CaseResult] = Field(max_length=MOST_CASES)

    def report(self, requests: dict[str, str]) -> Report:
        """Return the domain's report."""
        return Report(
            outcomes=tuple(result.outcome() for result in self.results),
            requests={UUID(case_id): request_id for case_id, request_id in requests.items()},
        )


_CASE_RESULT = {
    "case_id": _ID,
    "ranked_results": [{"chunk_id": "billing-7", "document_id": "billing", "score": 0.83}],
    "latency_ms": 14.2,
}


class NewResult(Body):
    """Both legs, which are published together or not at all."""

    model_config = example(
        claim_token=TOKEN_EXAMPLE,
        pins_digest=_DIGEST,
        consumer_revision_sha256=_DIGEST,
        current={"results": [_CASE_RESULT]},
        candidate={"results": [_CASE_RESULT]},
        current_gateway_requests={_ID: "0d9cd3f54d2f4a608a3b0a4f8d2b6f11"},
        candidate_gateway_requests={_ID: "7c4b9a0de1f24f0c9b8f3c6f5a2e1d00"},
    )

    claim_token: Token
    pins_digest: Sha256 = Field(description="That which the claim returned.")
    consumer_revision_sha256: Sha256 = Field(description="Which implementation reports.")
    current: ReportedLeg
    candidate: ReportedLeg
    current_gateway_requests: Requests
    candidate_gateway_requests: Requests

    def reported(self) -> Reported:
        """Return the result as it is checked and published."""
        return Reported(
            token=self.claim_token,
            sha256=call_digest("result", self.model_dump(mode="json", exclude={"claim_token"})),
            pins_digest=self.pins_digest,
            consumer_revision_sha256=self.consumer_revision_sha256,
            legs={
                "current": self.current.report(self.current_gateway_requests),
                "candidate": self.candidate.report(self.candidate_gateway_requests),
            },
        )


class SelectedModelComparison(BaseModel):
    """One comparison of a binding's current deployment with one candidate."""

    id: UUID
    project_id: UUID
    project_binding_id: UUID
    capability: str
    consumer_client_id: UUID
    suite_revision_id: UUID
    current_deployment_id: UUID
    candidate_deployment_id: UUID
    candidate_route_id: UUID
    corpus_sha256: str
    retrieval_config_sha256: str
    current_index_ref: str
    candidate_index_ref: str
    idempotency_key: str
    pins: dict[str, Any] = Field(description="What must not change while it runs.")
    pins_digest: str
    rule: dict[str, Any] = Field(description="By which eligibility is decided, as it was when this was created.")
    status: Status
    version: int = Field(description="It changes with the status, and not with progress.")
    case_count: int
    current_completed_cases: int
    candidate_completed_cases: int
    created_at: datetime
    claimed_at: datetime | None
    lease_expires_at: datetime | None
    deadline_at: datetime | None
    claim_expires_at: datetime | None = Field(description="The earlier of lease and deadline.")
    ended_at: datetime | None
    error_code: str | None
    consumer_revision_sha256: str | None = Field(description="Which implementation reported the result.")
    production_promotion_performed: Literal[False] = Field(False, description="Nothing is ever promoted.")
    evaluation_summary: dict[str, Any] | None = Field(description="Of a completed one.")


class Claimed(BaseModel):
    """A claim, given once. Whoever loses this answer lets the claim expire."""

    comparison: SelectedModelComparison
    claim_token: str = Field(description="Keep it in memory alone; nothing shows it again.")
    claim_expires_at: datetime
    retrieval_settings: dict[str, Any]
    cases: list[ClaimedCase]


class ClaimedCase(BaseModel):
    """One case, without its labels."""

    case_id: UUID
    query: str = Field(description="To be sent exactly as it is, alone.")


class Heartbeat(BaseModel):
    """A claim after a report of progress."""

    status: Status
    cancel_requested: bool = Field(description="Where true: start no more work, and finish as cancelled.")
    version: int
    claim_expires_at: datetime
    current_completed_cases: int
    candidate_completed_cases: int


class ReportedCaseLeg(BaseModel):
    """What one leg gave for a case, and how the hub judged it."""

    ranked_results: list[dict[str, Any]]
    latency_ms: float
    error_code: str | None
    gateway_request_id: str | None
    gateway_latency_ms: float | None
    metrics: dict[str, float]


class ReportedCase(BaseModel):
    """One case with what both legs gave; nothing where the comparison has no result."""

    case_id: UUID
    query: str
    critical: bool
    labels: dict[str, int]
    current: ReportedCaseLeg | None
    candidate: ReportedCaseLeg | None


def shown(comparison: Comparison, *, summary: dict[str, Any] | None = None) -> SelectedModelComparison:
    """Return what anybody may know of *comparison*."""
    known = {name: value for name, value in vars(comparison).items() if name in SelectedModelComparison.model_fields}
    return SelectedModelComparison(
        **known,
        **vars(comparison.intent),
        claim_expires_at=comparison.claim_expires_at,
        evaluation_summary=summary,
    )


def claimed_of(
    comparison: Comparison, revision: SuiteRevision, cases: Sequence[Case], *, token: str, capability: Capability
) -> Claimed:
    """Return the claim of *comparison* as its consumer gets it."""
    return Claimed(
        comparison=shown(comparison),
        claim_token=token,
        claim_expires_at=comparison.claim_expires_at,  # type: ignore[arg-type]  # It is claimed.
        retrieval_settings=revision.retrieval_settings,
        cases=[ClaimedCase(**capability.case_of(case)) for case in cases],
    )


def heartbeat_of(comparison: Comparison) -> Heartbeat:
    """Return what a report of progress on *comparison* is answered."""
    return Heartbeat(
        status=comparison.status,
        cancel_requested=comparison.status == "cancel_requested",
        version=comparison.version,
        claim_expires_at=comparison.claim_expires_at,  # type: ignore[arg-type]  # It is claimed.
        current_completed_cases=comparison.current_completed_cases,
        candidate_completed_cases=comparison.candidate_completed_cases,
    )
