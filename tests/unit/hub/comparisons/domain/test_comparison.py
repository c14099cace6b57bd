"""One comparison as the hub keeps it."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import get_args

import pytest
from tests.unit.hub.comparisons.protocol_makers import PENDING, T0, claimed, with_fields

from steelyard.hub.comparisons.domain.comparison import ACTIVE, CLAIMED, Status

SECOND = timedelta(seconds=1)


@pytest.mark.parametrize("status", get_args(Status))
def test_a_comparison_is_active_until_it_has_ended(status):
    is_active = status in ("pending", "running", "cancel_requested")
    assert replace(PENDING, status=status).is_active is is_active
    assert (status in ACTIVE) is is_active


def test_a_claim_is_held_while_it_runs_and_while_a_cancel_waits():
    assert frozenset({"running", "cancel_requested"}) == CLAIMED


@pytest.mark.parametrize(("lease", "deadline", "ends"), [(1, 2, 1), (2, 1, 1), (1, 1, 1)])
def test_a_claim_ends_with_its_lease_or_its_deadline_whichever_is_first(lease, deadline, ends):
    comparison = replace(claimed(), lease_expires_at=T0 + lease * SECOND, deadline_at=T0 + deadline * SECOND)
    assert comparison.claim_expires_at == T0 + ends * SECOND


@pytest.mark.parametrize("missing", ["lease_expires_at", "deadline_at"])
def test_what_was_not_claimed_has_no_claim_that_ends(missing):
    assert PENDING.claim_expires_at is None
    assert with_fields(claimed(), {missing: None}).claim_expires_at is None


def test_a_comparison_starts_without_claim_counts_or_end():
    assert (PENDING.claim_token_sha256, PENDING.claimed_at, PENDING.ended_at, PENDING.error_code) == (None,) * 4
    assert (PENDING.current_completed_cases, PENDING.candidate_completed_cases) == (0, 0)
    assert (PENDING.cancelled_version, PENDING.closing_sha256, PENDING.consumer_revision_sha256) == (None,) * 3
