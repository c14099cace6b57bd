"""The state machine: what a call makes of a comparison, and whether its caller is refused.

    pending ──claim──▶ running ──result──▶ completed
       │                │  │ └─finish failed──▶ failed
     cancel          cancel└─lease or deadline passes──▶ interrupted
       ▼                ▼
    cancelled     cancel_requested ──finish cancelled──▶ cancelled     (also failed, interrupted)

Every function takes the comparison as its locked row has it and the time as read after the lock. It returns the
comparison afterwards, which the caller keeps even where there is a refusal too: a claim that is found expired, or a
target that is found changed, ends the comparison although the call that found it is refused.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Literal

from steelyard.hall.canonical import sha256_of_json
from steelyard.hub.comparisons.domain.comparison import (
    CLAIM_EXPIRED,
    CLAIMED,
    RESTORE_INTERRUPTED,
    TARGET_CHANGED,
    Comparison,
)
from steelyard.hub.comparisons.domain.tokens import is_token
from steelyard.hub.errors import (
    BrokenRule,
    CancelNotRequested,
    CancelRequested,
    ClaimExpired,
    ClaimTaken,
    ComparisonEnded,
    CountsFell,
    PinsMismatch,
    RestoreInterrupted,
    TargetChanged,
    VersionConflict,
    WrongClaimToken,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from steelyard.hub.comparisons.domain.comparison import Status
    from steelyard.hub.errors import HubError

LEASE = timedelta(seconds=120)
DEADLINE = timedelta(hours=1)
Ending = Literal["failed", "cancelled"]


@dataclass(frozen=True)
class Verdict:
    """The comparison after a call, and the refusal where its caller gets one."""

    after: Comparison
    refusal: HubError | None = None


@dataclass(frozen=True, kw_only=True)
class Call:
    """A call by the holder of a claim: *sha256* is its digest, where it could end the comparison."""

    token: str
    now: datetime
    sha256: str | None = None


def call_digest(kind: Literal["result", "finish"], body: Mapping[str, Any]) -> str:
    """Return the digest by which retries are told: over the validated *body* without its token, absent as null."""
    return sha256_of_json({"call": kind, "body": body})


def reconciled(comparison: Comparison, *, now: datetime) -> Comparison:
    """Return the comparison with an expired claim interrupted; it ended when the claim did, whoever finds out when."""
    expires_at = comparison.claim_expires_at
    if comparison.status not in CLAIMED or expires_at is None or now < expires_at:
        return comparison
    return _ended(comparison, "interrupted", at=expires_at, error_code=CLAIM_EXPIRED)


def restored(comparison: Comparison, *, now: datetime) -> Comparison:
    """Return an active comparison as a restore of the database leaves it: interrupted, its claim gone."""
    ended = _ended(comparison, "interrupted", at=now, error_code=RESTORE_INTERRUPTED)
    return replace(ended, claim_token_sha256=None)


def claim(comparison: Comparison, *, token_sha256: str, is_drifted: bool, now: datetime) -> Verdict:
    """Give the comparison to its consumer, once ever."""
    comparison = reconciled(comparison, now=now)
    if not comparison.is_active:
        return Verdict(comparison, _ended_refusal(comparison))
    if comparison.status != "pending":
        return Verdict(comparison, ClaimTaken(current_version=comparison.version))
    if is_drifted:
        return _changed(comparison, now=now)
    return Verdict(
        replace(
            comparison,
            status="running",
            version=comparison.version + 1,
            claim_token_sha256=token_sha256,
            claimed_at=now,
            lease_expires_at=now + LEASE,
            deadline_at=now + DEADLINE,
        )
    )


def progress(comparison: Comparison, call: Call, *, current: int, candidate: int) -> Verdict:
    """Renew the lease and keep the counts, which never fall; the deadline stays."""
    comparison, refusal = _held(comparison, call)
    if refusal is not None:
        return Verdict(comparison, refusal)
    if current < comparison.current_completed_cases or candidate < comparison.candidate_completed_cases:
        return Verdict(comparison, CountsFell(current_version=comparison.version))
    if max(current, candidate) > comparison.case_count:
        return Verdict(comparison, BrokenRule(f"The suite has {comparison.case_count} cases; a count is above that"))
    return Verdict(
        replace(
            comparison,
            lease_expires_at=_renewed(comparison, now=call.now),
            current_completed_cases=current,
            candidate_completed_cases=candidate,
        )
    )


def _renewed(comparison: Comparison, *, now: datetime) -> datetime:
    """Return when the lease ends from now on: never earlier than before, should the clock have been set back."""
    return max(comparison.lease_expires_at or now, now + LEASE)


def cancel(comparison: Comparison, *, expected_version: int, now: datetime) -> Verdict:
    """Cancel a pending comparison at once; ask the consumer of a running one to stop."""
    comparison = reconciled(comparison, now=now)
    if _is_cancel_accepted(comparison, expected_version):
        return Verdict(comparison)
    if not comparison.is_active:
        return Verdict(comparison, _ended_refusal(comparison))
    if comparison.version != expected_version:
        return Verdict(comparison, VersionConflict(current_version=comparison.version))
    asked = replace(comparison, cancelled_version=expected_version)
    if comparison.status == "pending":
        return Verdict(_ended(asked, "cancelled", at=now))
    return Verdict(replace(asked, status="cancel_requested", version=comparison.version + 1))


def _is_cancel_accepted(comparison: Comparison, version: int) -> bool:
    """Tell whether a cancel with *version* has been accepted: by it, or after it, when its consumer was asked to stop.

    It stays so when the comparison has ended, since the answer may have been lost.
    """
    if comparison.cancelled_version is None:
        return False
    return version == comparison.cancelled_version or (
        comparison.claimed_at is not None and version == comparison.cancelled_version + 1
    )


def finish(comparison: Comparison, call: Call, *, outcome: Ending, error_code: str | None) -> Verdict:
    """End the comparison without a result: as failed, or as cancelled where that was asked for."""
    comparison, refusal = _held(comparison, call)
    if comparison.closing_sha256 is not None or refusal is not None:
        return Verdict(comparison, refusal)
    if outcome == "cancelled" and comparison.status != "cancel_requested":
        return Verdict(comparison, CancelNotRequested(current_version=comparison.version))
    closed = replace(comparison, closing_sha256=call.sha256)
    return Verdict(_ended(closed, outcome, at=call.now, error_code=error_code))


def publish(
    comparison: Comparison, call: Call, *, pins_digest: str, is_drifted: bool, fault: HubError | None, revision: str
) -> Verdict:
    """End the comparison with a result, whose evidence has *fault* where it has one; *revision* is the consumer's."""
    comparison, refusal = _held(comparison, call)
    if comparison.closing_sha256 is not None or refusal is not None:
        return Verdict(comparison, refusal)
    if comparison.status == "cancel_requested":
        return Verdict(comparison, CancelRequested(current_version=comparison.version))
    if pins_digest != comparison.pins_digest:
        return Verdict(comparison, PinsMismatch(current_version=comparison.version))
    if is_drifted:
        return _changed(comparison, now=call.now)
    if fault is not None:
        return Verdict(comparison, fault)
    closed = replace(
        comparison,
        closing_sha256=call.sha256,
        consumer_revision_sha256=revision,
        current_completed_cases=comparison.case_count,
        candidate_completed_cases=comparison.case_count,
    )
    return Verdict(_ended(closed, "completed", at=call.now))


def _held(comparison: Comparison, call: Call) -> tuple[Comparison, HubError | None]:
    """Return the comparison, reconciled, and the refusal of a call that does not come from the holder of its claim.

    A call that repeats the one that ended the comparison is not refused.
    """
    comparison = reconciled(comparison, now=call.now)
    is_holder = is_token(call.token, kept_sha256=comparison.claim_token_sha256)
    if not comparison.is_active:
        is_repeat = is_holder and call.sha256 is not None and call.sha256 == comparison.closing_sha256
        return comparison, None if is_repeat else _ended_refusal(comparison)
    if not is_holder:
        return comparison, WrongClaimToken()
    return comparison, None


def _changed(comparison: Comparison, *, now: datetime) -> Verdict:
    ended = _ended(comparison, "interrupted", at=now, error_code=TARGET_CHANGED)
    return Verdict(ended, _ended_refusal(ended))


def _ended(comparison: Comparison, status: Status, *, at: datetime, error_code: str | None = None) -> Comparison:
    return replace(comparison, status=status, version=comparison.version + 1, ended_at=at, error_code=error_code)


_INTERRUPTIONS: Mapping[str | None, type[ComparisonEnded]] = {
    CLAIM_EXPIRED: ClaimExpired,
    TARGET_CHANGED: TargetChanged,
    RESTORE_INTERRUPTED: RestoreInterrupted,
}


def _ended_refusal(comparison: Comparison) -> ComparisonEnded:
    if comparison.status == "interrupted":
        return _INTERRUPTIONS[comparison.error_code](current_version=comparison.version)
    return ComparisonEnded(f"The comparison is {comparison.status}", current_version=comparison.version)
