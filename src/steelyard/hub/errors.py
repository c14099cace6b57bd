"""Everything that the hub refuses for a reason of its own.

    HubError
    ├── NotAuthorised       the credential's role does not allow this
    │   └── WrongClaimToken     nor does the claim token that was sent
    ├── UnknownThing        nothing that the caller may know of has this id
    ├── BrokenRule          what was sent breaks a rule
    │   ├── UnknownReference    nothing has an id that was sent
    │   ├── RetrievalConfigMismatch
    │   ├── CorpusMismatch
    │   └── ResultRefused       a result that its cases or the request log contradict
    │       ├── CasesMismatch
    │       ├── EvidenceMissing
    │       ├── EvidenceUnknown
    │       ├── EvidenceReused
    │       ├── EvidenceWrongRoute
    │       ├── EvidenceNotCompleted
    │       ├── EvidenceNotSingle
    │       ├── EvidenceWrongInput
    │       └── EvidenceOutsideClaim
    └── Conflict            what was sent does not fit the hub's present state
        ├── SlugTaken
        ├── BindingExists
        ├── VersionConflict
        ├── NotEligible
        ├── PlanChanged
        ├── PlanRefused
        ├── KeyReused
        ├── ComparisonActive
        └── WrongState          of a comparison
            ├── ClaimTaken
            ├── CountsFell
            ├── CancelNotRequested
            ├── CancelRequested
            ├── PinsMismatch
            └── ComparisonEnded
                ├── ClaimExpired
                ├── TargetChanged
                └── RestoreInterrupted

No class knows an HTTP status; `rest/problems.py` has the one table.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from steelyard.hall.errors import SteelyardError

if TYPE_CHECKING:
    from collections.abc import Sequence


class HubError(SteelyardError):
    """The hub refused this."""

    code = "HUB_ERROR"


class NotAuthorised(HubError):
    """The credential's role does not allow this."""

    code = "FORBIDDEN"


class WrongClaimToken(NotAuthorised):
    """This is not the token of the comparison's claim."""

    code = "WRONG_CLAIM_TOKEN"


class UnknownThing(HubError):
    """Nothing has this id."""

    code = "NOT_FOUND"


class BrokenRule(HubError):
    """What was sent breaks a rule."""

    code = "INVALID_REQUEST"


class UnknownReference(BrokenRule):
    """Nothing has an id that was sent."""

    code = "UNKNOWN_REFERENCE"


class RetrievalConfigMismatch(BrokenRule):
    """retrieval_config_sha256 is not that of the suite revision's retrieval settings."""

    code = "RETRIEVAL_CONFIG_MISMATCH"


class CorpusMismatch(BrokenRule):
    """corpus_sha256 is not the corpus that the labels of the suite revision's cases are about."""

    code = "CORPUS_MISMATCH"


class ResultRefused(BrokenRule):
    """The result is not one of this comparison."""

    code = "RESULT_REFUSED"
    rule = "cannot be taken"

    def __init__(self, places: Sequence[str] = (), *, others: int = 0) -> None:
        """Take the *places* of the result that break the rule, and how many break *others*."""
        named = ", ".join(places[:3]) + (f" and {len(places) - 3} more" if len(places) > 3 else "")
        rest = f"; faults of other kinds: {others}" if others else ""
        super().__init__(f"{named} {self.rule}{rest}" if places else None)
        self.places = tuple(places)


class CasesMismatch(ResultRefused):
    """A leg does not have exactly one result for each case of the suite revision."""

    code = "CASES_MISMATCH"
    rule = "must have exactly one result for each case of the suite revision, and none for another"


class EvidenceMissing(ResultRefused):
    """A case without an error code has no gateway request."""

    code = "EVIDENCE_MISSING"
    rule = "must have a gateway request, since the case was reported as answered"


class EvidenceUnknown(ResultRefused):
    """A request id is of no request of this client's."""

    code = "EVIDENCE_UNKNOWN"
    rule = "must be the x-request-id of a request of this client's own"


class EvidenceReused(ResultRefused):
    """A request id stands twice, or is evidence of another comparison."""

    code = "EVIDENCE_REUSED"
    rule = "must be a request that is no evidence for another case or another comparison"


class EvidenceWrongRoute(ResultRefused):
    """A request went through another route, or to another deployment, than the pinned one of its leg."""

    code = "EVIDENCE_WRONG_ROUTE"
    rule = "must be a request through the pinned route of its leg, to its pinned deployment"


class EvidenceNotCompleted(ResultRefused):
    """A request was not completed."""

    code = "EVIDENCE_NOT_COMPLETED"
    rule = "must be a request that was completed"


class EvidenceNotSingle(ResultRefused):
    """A request had more than one input."""

    code = "EVIDENCE_NOT_SINGLE"
    rule = "must be a request with one input, the case's query alone"


class EvidenceWrongInput(ResultRefused):
    """A request's input was not the case's query."""

    code = "EVIDENCE_WRONG_INPUT"
    rule = "must be a request with the case's query as it is, of input_type query"


class EvidenceOutsideClaim(ResultRefused):
    """A request was not made within the claim."""

    code = "EVIDENCE_OUTSIDE_CLAIM"
    rule = "must be a request that began and ended within the claim"


class Conflict(HubError):
    """What was sent does not fit the present state."""

    code = "CONFLICT"
    current_version: int | None = None


class SlugTaken(Conflict):
    """The slug is taken; choose another."""

    code = "SLUG_TAKEN"


class BindingExists(Conflict):
    """The project has a binding for this capability and channel already; use that one."""

    code = "BINDING_EXISTS"


class VersionConflict(Conflict):
    """The thing has changed since it was read: read it again, and send its present version as expected_version."""

    code = "VERSION_CONFLICT"

    def __init__(self, *, current_version: int) -> None:
        super().__init__(f"The present version is {current_version}: read the thing again, and decide anew")
        self.current_version = current_version


class NotEligible(Conflict):
    """The things named do not fit together in their present state."""

    code = "NOT_ELIGIBLE"


class PlanChanged(Conflict):
    """The plan is no longer the one that was shown: look at it again, and decide anew."""

    code = "PLAN_CHANGED"


class PlanRefused(Conflict):
    """A step of the plan cannot be done, so none was."""

    code = "PLAN_REFUSED"


class KeyReused(Conflict):
    """The idempotency key was used for another comparison of this binding: choose a new key."""

    code = "IDEMPOTENCY_KEY_REUSED"


class ComparisonActive(Conflict):
    """The binding has a comparison that has not ended: let it end, or cancel it first."""

    code = "COMPARISON_ACTIVE"


class WrongState(Conflict):
    """The comparison is in another state."""

    code = "COMPARISON_STATE"

    def __init__(self, message: str | None = None, *, current_version: int) -> None:
        super().__init__(message)
        self.current_version = current_version


class ClaimTaken(WrongState):
    """The claim was given already, and is given once: if its response was lost, let it expire or cancel it."""

    code = "COMPARISON_CLAIM_TAKEN"


class CountsFell(WrongState):
    """A count of completed cases is below the one that was reported before."""

    code = "COMPARISON_COUNTS_FELL"


class CancelNotRequested(WrongState):
    """Nobody has asked to cancel this comparison: finish it as failed, or publish its result."""

    code = "COMPARISON_CANCEL_NOT_REQUESTED"


class CancelRequested(WrongState):
    """An operator has asked to cancel this comparison: finish it as cancelled; its result is no longer wanted."""

    code = "COMPARISON_CANCEL_REQUESTED"


class PinsMismatch(WrongState):
    """pins_digest is not the one that the claim returned."""

    code = "COMPARISON_PINS_MISMATCH"


class ComparisonEnded(WrongState):
    """The comparison has ended."""

    code = "COMPARISON_ENDED"


class ClaimExpired(ComparisonEnded):
    """The claim expired, so the comparison was interrupted: a new one needs a new intent."""

    code = "COMPARISON_CLAIM_EXPIRED"


class TargetChanged(ComparisonEnded):
    """What was pinned has changed, so the comparison was interrupted: a changed target needs a new intent."""

    code = "COMPARISON_TARGET_CHANGED"


class RestoreInterrupted(ComparisonEnded):
    """The database was restored, so the comparison was interrupted: review what still runs before a new intent."""

    code = "COMPARISON_RESTORE_INTERRUPTED"
