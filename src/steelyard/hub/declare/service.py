"""Carrying a document out, or rehearsing it, inside the caller's transaction. The rules are those of the slices."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from steelyard.hub.catalog.service import Catalog
from steelyard.hub.declare.domain import REFERENCES, Key, Plan, Step, plan
from steelyard.hub.declare.store import present_of
from steelyard.hub.declare.wanted import wanted_of
from steelyard.hub.errors import HubError, PlanChanged, PlanRefused
from steelyard.hub.suites.service import Suites

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from datetime import datetime
    from uuid import UUID

    from sqlalchemy import Connection

    from steelyard.hub.declare.schemas import Document
    from steelyard.hub.principal import Actor

_CHANNEL = "stable"


class _StepRefused(Exception):  # It never leaves this module.
    def __init__(self, key: Key, reason: str) -> None:
        self.key = key
        self.reason = reason


def rehearse(connection: Connection, document: Document, *, actor: Actor, now: datetime) -> Plan:
    """Return the plan as carrying it out would show it, a step that a rule forbids refused; changes nothing.

    The first such step ends the rehearsal, since later ones may build on it.
    """
    declaration = _Declaration(connection, document, actor=actor, now=now)
    if declaration.plan.refused:
        return declaration.plan
    savepoint = connection.begin_nested()
    try:
        declaration.carry_out()
    except _StepRefused as refused:
        return declaration.plan.refusing(refused.key, refused.reason)
    finally:
        savepoint.rollback()
    return declaration.plan


def apply(connection: Connection, document: Document, *, plan_digest: str | None, actor: Actor, now: datetime) -> Plan:
    """Carry the plan out and return it; raises PlanChanged where it is not that of *plan_digest*, or PlanRefused."""
    declaration = _Declaration(connection, document, actor=actor, now=now)
    if plan_digest not in (None, declaration.plan.digest):
        raise PlanChanged
    for step in declaration.plan.refused:
        raise _refusal(step.kind, step.place, str(step.reason))
    try:
        declaration.carry_out()
    except _StepRefused as refused:
        raise _refusal(refused.key.kind, refused.key.place, refused.reason) from refused
    return declaration.plan


def _refusal(kind: str, place: str, reason: str) -> PlanRefused:
    return PlanRefused(f"Nothing was done, since of {kind} {place}: {reason}")


class _Declaration:
    """One document against one state of the hub."""

    def __init__(self, connection: Connection, document: Document, *, actor: Actor, now: datetime) -> None:
        self._catalog = Catalog(connection, actor, now)
        self._suites = Suites(connection, actor, now)
        self._wanted = wanted_of(document)
        self._present = present_of(connection, document.projects)
        self._ids: dict[Key, UUID] = {key: found.id for key, found in self._present.items()}
        self.plan = plan(self._wanted, self._present)

    def carry_out(self) -> None:
        """Do every step in order; raises _StepRefused at the first that a rule forbids."""
        for key, step in self.plan.to_do:
            try:
                if step.action == "create":
                    self._create(key)
                else:
                    self._change(key, step, version=self._present[key].version)
            except HubError as error:
                raise _StepRefused(key, str(error)) from error

    def _create(self, key: Key) -> None:
        makers: Mapping[str, Callable[[Mapping[str, Any]], Any]] = {
            "project": self._catalog.create_project,
            "artifact": self._catalog.create_artifact,
            "runtime": self._catalog.create_runtime,
            "identity": self._catalog.create_identity,
            "deployment": self._catalog.create_deployment,
            "binding": self._catalog.create_binding,
            "route": self._catalog.create_route,
            "client": self._catalog.create_client,
            "suite": self._suites.create,
        }
        self._ids[key] = makers[key.kind](self._fields(key)).id
        self._finish(key, self._wanted[key].full)

    def _fields(self, key: Key) -> dict[str, Any]:
        """Return a new thing's fields as its service takes them: with ids for slugs, and with what holds it."""
        fields = dict(self._wanted[key].full)
        references = {name: self._id_named(key, name) for name in REFERENCES.get(key.kind, {})}
        project_id = self._ids[Key("project", key.path[:1])] if key.kind != "project" else None
        match key.kind:
            case "project":
                return {"slug": key.path[0], **fields}
            case "binding":
                return {"project_id": project_id, "capability": key.path[1], "channel": _CHANNEL}
            case "deployment":
                ids = {
                    "artifact_id": references["artifact"],
                    "runtime_id": references["runtime"],
                    "embedding_identity_id": references["identity"],
                }
                rest = {name: value for name, value in fields.items() if name not in references}
                return {"slug": key.path[1], **rest, **ids}
            case "route":
                binding_id = self._ids[Key("binding", key.path[:2])]
                return {
                    "project_binding_id": binding_id,
                    "slug": key.path[2],
                    "deployment_id": references["deployment"],
                }
            case "client":
                return {
                    "project_binding_id": self._ids[key.of_same_project("binding", fields["binding"])],
                    "slug": key.path[1],
                    "name": fields["name"],
                    "capabilities": [fields["binding"]],
                }
        return {"project_id": project_id, "slug": key.path[1], **fields}

    def _finish(self, key: Key, fields: Mapping[str, Any]) -> None:
        """Bring a thing just made, of version 1, to what its making cannot give it."""
        version = 1
        if fields.get("current_deployment") is not None:
            self._set_current(key, version=version)
            version += 1
        if fields.get("is_active") is False:
            self._set_active(key, is_active=False, version=version)

    def _change(self, key: Key, step: Step, *, version: int) -> None:
        for change in step.changes:
            if change.name == "current_deployment":
                self._set_current(key, version=version)
            elif change.name == "is_active":
                self._set_active(key, is_active=change.after, version=version)
            else:
                self._catalog.set_stage(self._ids[key], change.after, expected_version=version)
            version += 1

    def _set_current(self, key: Key, *, version: int) -> None:
        deployment_id = self._id_named(key, "current_deployment")
        self._catalog.set_current(self._ids[key], deployment_id, expected_version=version)

    def _set_active(self, key: Key, *, is_active: bool, version: int) -> None:
        change = self._catalog.activate_binding if key.kind == "binding" else self._catalog.activate_route
        change(self._ids[key], is_active=is_active, expected_version=version)

    def _id_named(self, key: Key, field: str) -> Any:
        """Return the id of what a field names by its slug, None where it names nothing."""
        slug = self._wanted[key].full[field]
        return self._ids[key.of_same_project(REFERENCES[key.kind][field], slug)] if slug else None
