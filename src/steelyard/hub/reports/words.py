"""What a report says in sentences: of a comparison's state, of the codes that end one, and of what it proves."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from steelyard.hall.texts import shorten

if TYPE_CHECKING:
    from collections.abc import Mapping

# The empty name stands for whatever a newer hub may say.
STATUSES = {
    "pending": (
        "Its consumer has not claimed it. Nothing starts by itself: run the consumer, or cancel the comparison, which "
        "ends at once."
    ),
    "running": "Its consumer is at work. If it falls silent, its claim expires and the comparison is interrupted.",
    "cancel_requested": (
        "An operator asked to cancel. It ends when its consumer acknowledges, or when the claim expires."
    ),
    "completed": "The consumer published both legs, and the hub computed the metrics from them.",
    "failed": "The consumer gave up. Nothing it had done so far counts.",
    "cancelled": "It was cancelled before it had a result.",
    "interrupted": "The hub ended it before it had a result.",
    "": "This version of the report does not know the state.",
}
_ANEW = (
    "See that the old consumer no longer works, then create a new comparison with a new idempotency key; this one is "
    "never taken up again."
)
CODES = {
    "COMPARISON_CLAIM_EXPIRED": (
        f"The consumer fell silent: it neither reported progress in time nor finished before the deadline. {_ANEW}"
    ),
    "COMPARISON_TARGET_CHANGED": (
        "What was compared changed meanwhile: the binding points elsewhere, or a deployment, route, client or suite is "
        "no longer what was pinned. 'steelyard hub audit list' says who changed what. "
        f"{_ANEW}"
    ),
    "COMPARISON_RESTORE_INTERRUPTED": (
        f"The hub's database was restored from a backup, which ends every comparison that was under way. {_ANEW}"
    ),
    "": f"The code is the consumer's own: its log says more. {_ANEW}",
}
VERDICTS = {
    "eligible": "On this suite nothing speaks against the candidate. Whether to promote it is an operator's decision.",
    "ineligible": "On this evidence the candidate must not take the current deployment's place.",
    "inconclusive": "This suite does not settle whether the candidate is good enough.",
    "": "This version of the report does not know the verdict.",
}
_NOT_PROMOTED = (
    "Nothing was promoted: a comparison moves no traffic, and only 'steelyard hub bindings set-current' does."
)


def statements(comparison: Mapping[str, Any]) -> tuple[str, ...]:
    """Return what a reader must know of how the evidence came about."""
    revision = comparison["consumer_revision_sha256"]
    if revision is None:
        return ("No rankings were reported.", _NOT_PROMOTED)
    reported = (
        "The rankings are the consumer's report and not the hub's own measurement; the revision digest "
        f"{shorten(revision)} says which implementation reported them. The hub checked each answered case against a "
        "completed request of its own gateway."
    )
    return reported, _NOT_PROMOTED
