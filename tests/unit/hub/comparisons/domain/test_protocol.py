"""The state machine, to the microsecond; the time is always passed in."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.hub.comparisons.protocol_makers import (
    CASES,
    PENDING,
    REVISION,
    T0,
    TOKEN,
    US,
    call,
    claimed,
    in_state,
    with_fields,
)

from steelyard.hub.comparisons.domain import protocol, tokens
from steelyard.hub.comparisons.domain.comparison import ACTIVE, CLAIMED, Comparison, Status
from steelyard.hub.comparisons.domain.protocol import DEADLINE, LEASE, Verdict, call_digest
from steelyard.hub.errors import (
    BrokenRule,
    CancelNotRequested,
    CancelRequested,
    ClaimExpired,
    ClaimTaken,
    ComparisonEnded,
    Conflict,
    CountsFell,
    EvidenceMissing,
    PinsMismatch,
    RestoreInterrupted,
    TargetChanged,
    VersionConflict,
    WrongClaimToken,
)

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime

    from steelyard.hub.comparisons.domain.protocol import Call
    from steelyard.hub.errors import HubError

STATUSES: tuple[Status, ...] = get_args(Status)
ENDED = [status for status in STATUSES if status not in ACTIVE]
TOKEN_SHA256 = tokens.token_sha256(TOKEN)
OTHER_SHA256 = "2" * 64


def claim(comparison: Comparison, *, is_drifted: bool = False, now: datetime = T0) -> Verdict:
    return protocol.claim(comparison, token_sha256=OTHER_SHA256, is_drifted=is_drifted, now=now)


def progress(comparison: Comparison, with_call: Call | None = None, *, current: int = 0, candidate: int = 0) -> Verdict:
    return protocol.progress(comparison, with_call or call(sha256=None), current=current, candidate=candidate)


def publish(
    comparison: Comparison,
    with_call: Call | None = None,
    *,
    pins_digest: str = PENDING.pins_digest,
    is_drifted: bool = False,
    fault: HubError | None = None,
) -> Verdict:
    return protocol.publish(
        comparison, with_call or call(), pins_digest=pins_digest, is_drifted=is_drifted, fault=fault, revision=REVISION
    )


def finish(
    comparison: Comparison,
    with_call: Call | None = None,
    *,
    outcome: protocol.Ending = "failed",
    error_code: str | None = None,
) -> Verdict:
    return protocol.finish(comparison, with_call or call(), outcome=outcome, error_code=error_code)


def refused(verdict: Verdict, kind: type[HubError], after: Comparison) -> None:
    """Require that the call was refused for exactly this reason, and left exactly this."""
    assert type(verdict.refusal) is kind
    assert verdict.after == after
    if isinstance(verdict.refusal, Conflict):
        assert verdict.refusal.current_version == after.version


CONSUMER_CALLS: dict[str, Callable[[Comparison, Call], Verdict]] = {
    "progress": lambda comparison, with_call: progress(comparison, replace(with_call, sha256=None)),
    "result": publish,
    "finish as failed": finish,
    "finish as cancelled": lambda comparison, with_call: finish(comparison, with_call, outcome="cancelled"),
}
every_consumer_call = pytest.mark.parametrize("act", CONSUMER_CALLS.values(), ids=CONSUMER_CALLS)


# Claims.


def test_a_claim_gives_a_lease_of_120_seconds_and_a_deadline_of_an_hour():
    verdict = claim(PENDING)
    assert verdict.refusal is None
    assert verdict.after == replace(
        PENDING,
        status="running",
        version=2,
        claim_token_sha256=OTHER_SHA256,
        claimed_at=T0,
        lease_expires_at=T0 + timedelta(seconds=120),
        deadline_at=T0 + timedelta(hours=1),
    )


@pytest.mark.parametrize("status", ["running", "cancel_requested"])
def test_a_claim_is_given_once(status):
    comparison = in_state(status)
    refused(claim(comparison), ClaimTaken, comparison)


@pytest.mark.parametrize("status", ["completed", "failed", "cancelled"])
@pytest.mark.parametrize("is_drifted", [True, False])
def test_what_has_ended_cannot_be_claimed_and_is_not_interrupted(status, is_drifted):
    comparison = in_state(status)
    refused(claim(comparison, is_drifted=is_drifted), ComparisonEnded, comparison)
    assert f"is {status}" in str(claim(comparison).refusal)


def test_a_claim_of_a_changed_target_interrupts_and_is_refused():
    after = replace(
        PENDING, status="interrupted", version=2, ended_at=T0, error_code="COMPARISON_TARGET_CHANGED"
    )  # fmt: skip
    refused(claim(PENDING, is_drifted=True), TargetChanged, after)


def test_a_claim_that_is_held_is_not_interrupted_by_another_claim_of_a_changed_target():
    refused(claim(claimed(), is_drifted=True), ClaimTaken, claimed())


# Expiry.


@pytest.mark.parametrize("status", ["running", "cancel_requested"])
@pytest.mark.parametrize("edge", ["lease_expires_at", "deadline_at"])
def test_a_claim_expires_exactly_when_its_lease_or_its_deadline_is_reached(status, edge):
    ends = {"lease_expires_at": T0 + DEADLINE, "deadline_at": T0 + DEADLINE, edge: T0 + LEASE}
    comparison = with_fields(in_state(status), ends)
    assert protocol.reconciled(comparison, now=T0 + LEASE - US) == comparison
    after = replace(
        comparison,
        status="interrupted",
        version=comparison.version + 1,
        ended_at=T0 + LEASE,
        error_code="COMPARISON_CLAIM_EXPIRED",
    )
    assert protocol.reconciled(comparison, now=T0 + LEASE) == after
    assert protocol.reconciled(comparison, now=T0 + LEASE + DEADLINE) == after, "it ended when the claim did"
    assert after.claim_token_sha256 == TOKEN_SHA256, "an expired claim's hash stays, so that its holder is told why"


@given(st.sampled_from(STATUSES), st.timedeltas(min_value=timedelta(0), max_value=timedelta(days=400)))
def test_only_a_claim_expires(status, passed):
    comparison = in_state(status)
    after = protocol.reconciled(comparison, now=T0 + passed)
    assert (after != comparison) is (status in CLAIMED and passed >= LEASE)
    assert protocol.reconciled(after, now=T0 + 2 * passed) == after or after.is_active


def test_a_claimed_row_without_its_times_does_not_expire_by_itself():
    comparison = replace(claimed(), lease_expires_at=None)
    assert protocol.reconciled(comparison, now=T0 + DEADLINE) == comparison


@every_consumer_call
@pytest.mark.parametrize("status", ["running", "cancel_requested"])
def test_a_call_at_the_lease_s_end_interrupts_and_is_refused_whoever_calls(act, status):
    comparison = in_state(status)
    for token in (TOKEN, "wrong"):
        verdict = act(comparison, call(now=T0 + LEASE, token=token))
        refused(verdict, ClaimExpired, protocol.reconciled(comparison, now=T0 + LEASE))
        assert verdict.after.status == "interrupted"


@every_consumer_call
def test_a_call_a_microsecond_before_the_lease_s_end_is_in_time(act):
    for status in ("running", "cancel_requested"):
        verdict = act(in_state(status), call(now=T0 + LEASE - US))
        assert verdict.after.status != "interrupted"
        assert not isinstance(verdict.refusal, ComparisonEnded)


@pytest.mark.parametrize(
    "act", [claim, lambda comparison, now: protocol.cancel(comparison, expected_version=2, now=now)]
)
def test_a_claim_and_a_cancel_find_out_that_a_claim_has_expired(act):
    expired = protocol.reconciled(claimed(), now=T0 + LEASE)
    refused(act(claimed(), now=T0 + LEASE), ClaimExpired, expired)


# Progress.


@pytest.mark.parametrize("status", ["running", "cancel_requested"])
def test_progress_renews_the_lease_keeps_the_counts_and_leaves_version_and_deadline(status):
    comparison = in_state(status)
    at = T0 + timedelta(seconds=100)
    verdict = progress(comparison, call(now=at, sha256=None), current=2, candidate=1)
    assert verdict == Verdict(
        replace(comparison, lease_expires_at=at + LEASE, current_completed_cases=2, candidate_completed_cases=1)
    )


def test_a_clock_that_is_set_back_shortens_no_lease():
    comparison = replace(claimed(), lease_expires_at=T0 + timedelta(seconds=200))
    verdict = progress(comparison, call(now=T0 + timedelta(seconds=10), sha256=None), current=0, candidate=0)
    assert verdict.after.lease_expires_at == T0 + timedelta(seconds=200)


def test_no_progress_extends_the_deadline():
    comparison = claimed()
    now = T0
    for _ in range(31):
        now += timedelta(seconds=119)
        verdict = progress(comparison, call(now=min(now, T0 + DEADLINE - US), sha256=None))
        assert verdict.refusal is None
        comparison = verdict.after
    assert comparison.claim_expires_at == T0 + DEADLINE
    refused(
        progress(comparison, call(now=T0 + DEADLINE, sha256=None)),
        ClaimExpired,
        protocol.reconciled(comparison, now=T0 + DEADLINE),
    )
    assert protocol.reconciled(comparison, now=T0 + DEADLINE).ended_at == T0 + DEADLINE


COUNT = st.integers(0, CASES)


@given(COUNT, COUNT, st.integers(0, CASES + 2), st.integers(0, CASES + 2))
def test_counts_never_fall_and_never_pass_the_suite_s(had_current, had_candidate, current, candidate):
    comparison = replace(claimed(), current_completed_cases=had_current, candidate_completed_cases=had_candidate)
    verdict = progress(comparison, current=current, candidate=candidate)
    if current < had_current or candidate < had_candidate:
        refused(verdict, CountsFell, comparison)
    elif current > CASES or candidate > CASES:
        refused(verdict, BrokenRule, comparison)
        assert str(CASES) in str(verdict.refusal)
    else:
        assert verdict.refusal is None
        assert verdict.after.current_completed_cases == current
        assert verdict.after.candidate_completed_cases == candidate


# Tokens.


@every_consumer_call
@pytest.mark.parametrize("status", ["running", "cancel_requested"])
def test_another_token_is_refused_before_any_state(act, status):
    comparison = in_state(status)
    refused(act(comparison, call(token="wrong")), WrongClaimToken, comparison)


@every_consumer_call
def test_nobody_holds_a_pending_comparison(act):
    refused(act(PENDING, call()), WrongClaimToken, PENDING)


# Cancelling.


def test_cancelling_a_pending_comparison_ends_it_at_once():
    verdict = protocol.cancel(PENDING, expected_version=1, now=T0)
    assert verdict == Verdict(replace(PENDING, status="cancelled", version=2, cancelled_version=1, ended_at=T0))


def test_cancelling_a_running_comparison_asks_its_consumer_to_stop():
    verdict = protocol.cancel(claimed(), expected_version=2, now=T0)
    assert verdict == Verdict(replace(claimed(), status="cancel_requested", version=3, cancelled_version=2))


@pytest.mark.parametrize("status", ["pending", "running"])
@pytest.mark.parametrize("difference", [-1, 1])
def test_a_cancel_of_another_version_is_refused(status, difference):
    comparison = in_state(status)
    verdict = protocol.cancel(comparison, expected_version=comparison.version + difference, now=T0)
    refused(verdict, VersionConflict, comparison)


def test_a_cancel_of_a_version_that_was_never_cancelled_is_refused_while_a_cancel_waits():
    comparison = in_state("cancel_requested")
    for version in (1, 4):
        refused(protocol.cancel(comparison, expected_version=version, now=T0), VersionConflict, comparison)


@pytest.mark.parametrize("status", ["completed", "failed", "interrupted"])
def test_what_has_ended_cannot_be_cancelled(status):
    comparison = in_state(status)
    verdict = protocol.cancel(comparison, expected_version=comparison.version, now=T0)
    assert isinstance(verdict.refusal, ComparisonEnded)
    assert verdict.after == comparison


def ends_of_an_asked_one() -> list[Comparison]:
    asked = in_state("cancel_requested")
    return [
        asked,
        finish(asked, outcome="cancelled").after,
        finish(asked).after,
        protocol.reconciled(asked, now=T0 + LEASE),
        protocol.restored(asked, now=T0),
    ]


@pytest.mark.parametrize("comparison", ends_of_an_asked_one(), ids=lambda comparison: comparison.status)
def test_a_repeated_cancel_stays_accepted_whatever_came_of_it(comparison):
    for version in (2, 3):  # The first, and one of an operator who saw that the consumer had been asked.
        verdict = protocol.cancel(comparison, expected_version=version, now=T0 + LEASE - US)
        assert verdict == Verdict(comparison)
    if not comparison.is_active:
        for version in (1, 4):
            assert isinstance(protocol.cancel(comparison, expected_version=version, now=T0).refusal, ComparisonEnded)


def test_a_repeated_cancel_of_what_was_pending_stays_accepted_and_its_new_version_is_refused():
    cancelled = protocol.cancel(PENDING, expected_version=1, now=T0).after
    assert protocol.cancel(cancelled, expected_version=1, now=T0 + DEADLINE) == Verdict(cancelled)
    refused(protocol.cancel(cancelled, expected_version=2, now=T0), ComparisonEnded, cancelled)


def test_a_repeated_cancel_that_finds_the_claim_expired_is_accepted_and_interrupts():
    asked = in_state("cancel_requested")
    verdict = protocol.cancel(asked, expected_version=2, now=T0 + LEASE)
    assert verdict == Verdict(protocol.reconciled(asked, now=T0 + LEASE))
    assert verdict.after.status == "interrupted"


# Finishing.


@pytest.mark.parametrize("status", ["running", "cancel_requested"])
@pytest.mark.parametrize("error_code", ["CONSUMER_SHUTDOWN", None])
def test_a_consumer_may_fail_whether_or_not_a_cancel_waits(status, error_code):
    comparison = in_state(status)
    verdict = finish(comparison, call(now=T0 + US), error_code=error_code)
    after = replace(
        comparison,
        status="failed",
        version=comparison.version + 1,
        closing_sha256="1" * 64,
        ended_at=T0 + US,
        error_code=error_code,
    )
    assert verdict == Verdict(after)


def test_a_consumer_acknowledges_a_cancel():
    asked = in_state("cancel_requested")
    after = replace(asked, status="cancelled", version=4, closing_sha256="1" * 64, ended_at=T0)
    assert finish(asked, outcome="cancelled") == Verdict(after)


def test_nothing_is_cancelled_that_nobody_asked_to_cancel():
    refused(finish(claimed(), outcome="cancelled"), CancelNotRequested, claimed())


# Results.


def test_a_result_completes_a_running_comparison():
    verdict = publish(claimed(), call(now=T0 + US))
    after = replace(
        claimed(),
        status="completed",
        version=3,
        closing_sha256="1" * 64,
        consumer_revision_sha256=REVISION,
        current_completed_cases=CASES,
        candidate_completed_cases=CASES,
        ended_at=T0 + US,
    )
    assert verdict == Verdict(after)


def test_a_result_is_refused_while_a_cancel_waits_whatever_else_is_wrong_with_it():
    asked = in_state("cancel_requested")
    verdict = publish(asked, pins_digest="0" * 64, is_drifted=True, fault=EvidenceMissing())
    refused(verdict, CancelRequested, asked)


def test_a_result_with_other_pins_is_refused_before_a_changed_target_is_looked_for():
    refused(publish(claimed(), pins_digest="0" * 64, is_drifted=True, fault=EvidenceMissing()), PinsMismatch, claimed())


def test_a_result_of_a_changed_target_interrupts_and_is_refused():
    after = replace(claimed(), status="interrupted", version=3, ended_at=T0, error_code="COMPARISON_TARGET_CHANGED")
    refused(publish(claimed(), is_drifted=True, fault=EvidenceMissing()), TargetChanged, after)
    assert after.claim_token_sha256 == TOKEN_SHA256


def test_a_result_with_a_fault_is_refused_and_may_be_sent_again():
    verdict = publish(claimed(), fault=EvidenceMissing())
    refused(verdict, EvidenceMissing, claimed())
    assert publish(verdict.after).after.status == "completed"


# What has ended.


@pytest.mark.parametrize("status", ENDED)
@every_consumer_call
def test_what_has_ended_refuses_every_other_call_and_never_changes(status, act):
    comparison = in_state(status)
    for token in (TOKEN, "wrong"):
        verdict = act(comparison, call(now=T0 + DEADLINE, token=token, sha256=OTHER_SHA256))
        assert isinstance(verdict.refusal, ComparisonEnded)
        assert verdict.after == comparison


@pytest.mark.parametrize(
    ("status", "act"),
    [
        ("completed", publish),
        ("failed", finish),
        ("cancelled", lambda comparison, with_call: finish(comparison, with_call, outcome="cancelled")),
    ],
)
def test_a_repeat_of_the_call_that_ended_it_is_accepted_from_its_holder_alone(status, act):
    comparison = in_state(status)
    assert act(comparison, call(now=T0 + DEADLINE)) == Verdict(comparison)
    refused(act(comparison, call(token="wrong")), ComparisonEnded, comparison)


@pytest.mark.parametrize("status", ["completed", "failed", "cancelled"])
def test_a_repeat_is_accepted_even_where_a_first_call_would_now_be_refused(status):
    comparison = in_state(status)
    assert publish(comparison, pins_digest="0" * 64, is_drifted=True, fault=EvidenceMissing()) == Verdict(comparison)


@pytest.mark.parametrize("status", ENDED)
def test_a_call_without_a_digest_is_never_a_repeat(status):
    comparison = in_state(status)
    assert isinstance(progress(comparison).refusal, ComparisonEnded)
    assert isinstance(publish(replace(comparison, closing_sha256=None), call(sha256=None)).refusal, ComparisonEnded)


@pytest.mark.parametrize("status", ["pending", "running", "cancel_requested"])
def test_a_restore_interrupts_what_is_active_and_clears_its_claim(status):
    comparison = in_state(status)
    after = protocol.restored(comparison, now=T0 + US)
    assert after == replace(
        comparison,
        status="interrupted",
        version=comparison.version + 1,
        ended_at=T0 + US,
        error_code="COMPARISON_RESTORE_INTERRUPTED",
        claim_token_sha256=None,
    )
    for act in CONSUMER_CALLS.values():
        refused(act(after, call(now=T0 + US)), RestoreInterrupted, after)
    refused(claim(after), RestoreInterrupted, after)


# Digests of calls.

BODIES = st.dictionaries(st.text(max_size=5), st.none() | st.floats(allow_nan=False, allow_infinity=False) | st.text())


@given(BODIES, BODIES)
def test_two_calls_are_the_same_when_kind_and_body_are(one, other):
    assert (call_digest("result", one) == call_digest("result", other)) is (repr(sorted(one.items())) == repr(
        sorted(other.items())
    ))  # fmt: skip
    assert call_digest("result", one) != call_digest("finish", one)


# Every course of calls.

calls = st.one_of(
    st.tuples(st.just("claim"), st.booleans(), st.booleans()),
    st.tuples(st.just("progress"), st.integers(0, CASES + 1), st.integers(0, CASES + 1)),
    st.tuples(st.just("cancel"), st.integers(1, 5), st.none()),
    st.tuples(st.just("finish"), st.sampled_from(get_args(protocol.Ending)), st.sampled_from(["1" * 64, "2" * 64])),
    st.tuples(st.just("result"), st.booleans(), st.sampled_from(["1" * 64, "2" * 64])),
    st.tuples(st.just("look"), st.none(), st.none()),
)
moments = st.sampled_from([timedelta(0), US, LEASE - US, LEASE, DEADLINE - US, DEADLINE])
NEXT: dict[str, set[str]] = {
    "pending": {"running", "cancelled", "interrupted"},
    "running": {"cancel_requested", "completed", "failed", "interrupted"},
    "cancel_requested": {"cancelled", "failed", "interrupted"},
}


def act_on(comparison: Comparison, what: tuple, token: str, now: datetime) -> Verdict:
    kind, first, second = what
    if kind == "claim":
        return protocol.claim(comparison, token_sha256=TOKEN_SHA256, is_drifted=first and second, now=now)
    if kind == "progress":
        return progress(comparison, call(now=now, token=token, sha256=None), current=first, candidate=second)
    if kind == "cancel":
        return protocol.cancel(comparison, expected_version=first, now=now)
    if kind == "finish":
        return finish(comparison, call(now=now, token=token, sha256=second), outcome=first)
    if kind == "result":
        return publish(comparison, call(now=now, token=token, sha256=second), is_drifted=first)
    return Verdict(protocol.reconciled(comparison, now=now))


@given(st.lists(st.tuples(calls, st.sampled_from([TOKEN, TOKEN, "wrong"]), moments), max_size=12))
def test_no_course_of_calls_breaks_what_is_promised_of_every_step(course):
    comparison, now = PENDING, T0
    for what, token, passed in course:
        now += passed
        verdict = act_on(comparison, what, token, now)
        after = verdict.after
        if not comparison.is_active:
            assert after == comparison, "a terminal state never changes"
        if after.status == comparison.status:
            assert after.version == comparison.version, "the version grows only with the state"
        else:
            assert after.status in NEXT[comparison.status]
            assert after.version == comparison.version + 1
        assert after.current_completed_cases >= comparison.current_completed_cases
        assert after.candidate_completed_cases >= comparison.candidate_completed_cases
        assert (after.ended_at is None) is after.is_active
        assert (after.claim_token_sha256 is None) is (after.claimed_at is None)
        assert after.deadline_at == comparison.deadline_at or comparison.status == "pending"
        assert after.status not in CLAIMED or after.claim_expires_at is not None
        if after.status in CLAIMED and verdict.refusal is None:
            assert after.claim_expires_at is not None
            assert now < after.claim_expires_at
        if verdict.refusal is None:
            assert act_on(after, what, token, now) == verdict or what[0] == "claim", "a repeat is accepted"
        comparison = after
