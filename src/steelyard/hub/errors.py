"""Everything that the hub refuses for a reason of its own.

    HubError
    ├── NotAuthorised       the credential's role does not allow this
    ├── UnknownThing        nothing that the caller may know of has this id
    ├── BrokenRule          what was sent breaks a rule
    │   └── UnknownReference    nothing has an id that was sent
    └── Conflict            what was sent does not fit the hub's present state
        ├── SlugTaken
        ├── BindingExists
        ├── VersionConflict
        ├── NotEligible
        ├── PlanChanged
        └── PlanRefused

No class knows an HTTP status; `rest/problems.py` has the one table.
"""

from __future__ import annotations

from steelyard.hall.errors import SteelyardError


class HubError(SteelyardError):
    """The hub refused this."""

    code = "HUB_ERROR"


class NotAuthorised(HubError):
    """The credential's role does not allow this."""

    code = "FORBIDDEN"


class UnknownThing(HubError):
    """Nothing has this id."""

    code = "NOT_FOUND"


class BrokenRule(HubError):
    """What was sent breaks a rule."""

    code = "INVALID_REQUEST"


class UnknownReference(BrokenRule):
    """Nothing has an id that was sent."""

    code = "UNKNOWN_REFERENCE"


class Conflict(HubError):
    """What was sent does not fit the present state."""

    code = "CONFLICT"


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
