"""The difference between what a document wants and what the hub has, as a plan. Pure: it reads and changes nothing.

A document never takes anything away: what it leaves out, a thing or a field, stays as it is. What cannot be changed is
refused in words, and a plan with a refused step is not carried out at all.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

from steelyard.hall.canonical import sha256_of_json

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from uuid import UUID

Kind = Literal[
    "project", "artifact", "runtime", "identity", "deployment", "binding", "route", "client", "suite", "suite_revision"
]
Action = Literal["create", "change", "unchanged", "refused"]
KINDS: tuple[Kind, ...] = (
    "project", "artifact", "runtime", "identity", "deployment", "binding", "route", "client", "suite",
    "suite_revision",
)  # fmt: skip
_STABLE = "stable"
_CHANGEABLE: Mapping[Kind, frozenset[str]] = {
    "binding": frozenset({"is_active", "current_deployment"}),
    "route": frozenset({"is_active"}),
    "deployment": frozenset({"stage"}),
}
# Fields that name other things of the project, by the kind of what they name.
REFERENCES: Mapping[Kind, Mapping[str, Kind]] = {
    "deployment": {"artifact": "artifact", "runtime": "runtime", "identity": "identity"},
    "binding": {"current_deployment": "deployment"},
    "route": {"deployment": "deployment"},
}


@dataclass(frozen=True, order=True)
class Key:
    """A thing by its names: a project's slug, then its own; a route stands under its binding's capability.

    A suite revision has its suite's names: a document gives a suite one at most.
    """

    kind: Kind
    path: tuple[str, ...]

    @property
    def place(self) -> str:
        """The names as one text."""
        return "/".join(self.path)

    def of_same_project(self, kind: Kind, slug: str) -> Key:
        """Return the key of another thing of the project."""
        return Key(kind, (self.path[0], slug))


@dataclass(frozen=True)
class Wanted:
    """A thing of the document: the fields that it gives, and those of a new thing, defaults included."""

    given: Mapping[str, Any]
    full: Mapping[str, Any]


@dataclass(frozen=True)
class Found:
    """A thing of the hub; *fields* names other things by their slugs, *ended_by* says how it ended for good.

    A suite revision is found only where it has the content that the document wants. *remark* is what a reader of an
    unchanged step should know.
    """

    id: UUID
    fields: Mapping[str, Any]
    version: int = 0
    ended_by: str | None = None
    remark: str | None = None


@dataclass(frozen=True, kw_only=True)
class FieldChange:
    """A field's value before, null in a new thing, and after."""

    name: str
    before: Any
    after: Any


@dataclass(frozen=True, kw_only=True)
class Step:
    """What is done about one thing; *place* is its project and its names.

    *reason* says why it is refused, or what to know of a thing that is unchanged.
    """

    action: Action
    kind: Kind
    place: str
    changes: list[FieldChange]
    reason: str | None = None


@dataclass(frozen=True)
class Plan:
    """Every thing of a document with what is done about it, in the order in which it is done."""

    entries: tuple[tuple[Key, Step], ...]

    @property
    def steps(self) -> list[Step]:
        """The steps alone."""
        return [step for _, step in self.entries]

    @property
    def digest(self) -> str:
        """The SHA-256 of the steps' canonical JSON; whoever saw these steps can ask for exactly them."""
        return sha256_of_json([asdict(step) for step in self.steps])

    @property
    def refused(self) -> list[Step]:
        """The steps that cannot be done."""
        return [step for step in self.steps if step.action == "refused"]

    @property
    def to_do(self) -> Iterator[tuple[Key, Step]]:
        """The steps that change something."""
        return ((key, step) for key, step in self.entries if step.action in ("create", "change"))

    def refusing(self, refused: Key, reason: str) -> Plan:
        """Return the plan with one thing's step refused."""
        return Plan(
            tuple(
                (key, replace(step, action="refused", reason=reason) if key == refused else step)
                for key, step in self.entries
            )
        )


def plan(wanted: Mapping[Key, Wanted], present: Mapping[Key, Found]) -> Plan:
    """Return what has to be done so that the hub has what is *wanted*."""
    entries = [(key, _step(key, wanted, present)) for key in wanted]
    return Plan(tuple(sorted(entries, key=lambda entry: (_phase(*entry), entry[0].path))))


def _phase(key: Key, step: Step) -> int:
    """Return when a step is done: what others refer to first, and a route is closed before its deployment moves."""
    phase = 2 * KINDS.index(key.kind)
    is_closing = step.action == "change" and any(change.after is False for change in step.changes)
    return 2 * KINDS.index("deployment") - 1 if key.kind == "route" and is_closing else phase


def _step(key: Key, wanted: Mapping[Key, Wanted], present: Mapping[Key, Found]) -> Step:
    given, found = wanted[key].given, present.get(key)
    before = found.fields if found else {}
    changes = [
        FieldChange(name=name, before=before.get(name), after=value)
        for name, value in sorted(given.items())
        if found is None or before.get(name) != value
    ]
    reason = _missing(key, given, known={*wanted, *present}) or _obstacle(key, found, changes)
    if found and not changes and not reason:
        return Step(action="unchanged", kind=key.kind, place=key.place, changes=[], reason=found.remark)
    return Step(
        action="refused" if reason else "create" if found is None else "change",
        kind=key.kind,
        place=key.place,
        changes=changes,
        reason=reason,
    )


def _missing(key: Key, given: Mapping[str, Any], *, known: set[Key]) -> str | None:
    for name, kind in REFERENCES.get(key.kind, {}).items():
        if name in given and key.of_same_project(kind, given[name]) not in known:
            return f"project {key.path[0]} has no {kind} {given[name]}, and the file makes none"
    return None


def _obstacle(key: Key, found: Found | None, changes: list[FieldChange]) -> str | None:
    """Return why the thing cannot come to be as it is wanted, or None."""
    if key.kind == "route" and key.path[-1] == _STABLE:
        return "the stable route comes with its binding and leads to the binding's current_deployment"
    if found is None:
        return None
    if found.ended_by:
        return f"it is {found.ended_by}, for good: take it out of the file, or give a new one another name"
    fixed = [change for change in changes if change.name not in _CHANGEABLE.get(key.kind, ())]
    if fixed:
        return (
            f"{fixed[0].name} is {_shown(fixed[0].before)} and the file says {_shown(fixed[0].after)}, which never "
            f"changes in a {key.kind}: give a new one another name, or put the file right"
        )
    return _moved_pointer(key, found, changes)


def _moved_pointer(key: Key, found: Found, changes: list[FieldChange]) -> str | None:
    for change in changes:
        if change.name == "current_deployment" and change.before is not None:
            return (
                f"it points at {change.before}, and only a command moves it: steelyard hub bindings set-current "
                f"{key.path[1]} --project {key.path[0]} --deployment {change.after} --expected-version {found.version}"
            )
    return None


def _shown(value: object) -> str:
    return f"{value!r}" if isinstance(value, str) else str(value)
