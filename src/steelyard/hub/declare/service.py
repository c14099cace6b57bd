"""Carrying a document out, or rehearsing it, inside the caller's transaction. The rules are those of the slices."""

from __future__ import annotations

from typing import TYPE_CHECKING

from steelyard.hub.catalog.service import Catalog
from steelyard.hub.declare.domain import Key, Plan, plan
from steelyard.hub.declare.making import Maker
from steelyard.hub.declare.store import present_of
from steelyard.hub.declare.wanted import wanted_of
from steelyard.hub.errors import HubError, PlanChanged, PlanRefused
from steelyard.hub.suites.service import Suites

if TYPE_CHECKING:
    from datetime import datetime

    from sqlalchemy import Connection

    from steelyard.hub.declare.schemas import Document
    from steelyard.hub.principal import Actor


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
        wanted = wanted_of(document)
        self._present = present_of(connection, wanted)
        self._maker = Maker(
            Catalog(connection, actor, now),
            Suites(connection, actor, now),
            wanted=wanted,
            ids={key: found.id for key, found in self._present.items()},
        )
        self.plan = plan(wanted, self._present)

    def carry_out(self) -> None:
        """Do every step in order; raises _StepRefused at the first that a rule forbids."""
        for key, step in self.plan.to_do:
            try:
                if step.action == "create":
                    self._maker.create(key)
                else:
                    self._maker.change(key, step.changes, version=self._present[key].version)
            except HubError as error:
                raise _StepRefused(key, str(error)) from error
