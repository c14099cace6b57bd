"""Carrying calls out on comparisons, inside the caller's transaction: the rules are the domain's.

Each call locks the comparison's row, reads the clock, lets the domain decide, and writes what it decided with its audit
event. A refusal is returned and not raised, since what the refused call found out must be committed all the same.
"""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from steelyard.hall.canonical import sha256_of_json
from steelyard.hub.audit import store as audit
from steelyard.hub.audit.domain import Change
from steelyard.hub.catalog import domain as catalog_domain
from steelyard.hub.catalog import store as catalog
from steelyard.hub.comparisons import store
from steelyard.hub.comparisons.capabilities.known import CAPABILITIES
from steelyard.hub.comparisons.domain import intents, protocol, tokens
from steelyard.hub.comparisons.domain.comparison import Comparison
from steelyard.hub.comparisons.domain.participants import Participants, Side
from steelyard.hub.db.errors import UniqueViolated
from steelyard.hub.errors import ComparisonActive, HubError, KeyReused
from steelyard.hub.principal import HUB
from steelyard.hub.suites import store as suites

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from datetime import datetime
    from uuid import UUID

    from sqlalchemy import Connection

    from steelyard.hub.comparisons.domain.comparison import Intent
    from steelyard.hub.comparisons.domain.protocol import Ending, Verdict
    from steelyard.hub.principal import Actor


@dataclass(frozen=True)
class Outcome:
    """What came of a call: the comparison as it is now, or a refusal; *is_new* where the call has made it."""

    comparison: Comparison | None
    refusal: HubError | None = None
    is_new: bool = False

    def answer(self) -> Comparison:
        """Return the comparison; raises the refusal."""
        if self.refusal is not None:
            raise self.refusal
        assert self.comparison is not None  # noqa: S101  # One of the two is there.
        return self.comparison


@dataclass(frozen=True)
class Comparisons:
    """The comparisons inside one transaction; *clock* is asked after a row is locked."""

    connection: Connection
    actor: Actor
    clock: Callable[[], datetime]

    def create(self, intent: Intent, *, key: str, rule: Mapping[str, Any]) -> Outcome:
        """Keep an intent; a repeat with its key gives what it made the first time."""
        return self._replay(intent, key=key) or self._create(intent, key=key, rule=rule)

    def reconcile(self, comparison_id: UUID) -> Comparison:
        """Interrupt the comparison if its claim has expired."""
        before = store.get(self.connection, comparison_id, lock=True)
        return self._keep(before, protocol.reconciled(before, now=self.clock()))

    def claim(self, comparison_id: UUID) -> tuple[Outcome, str]:
        """Give a comparison to its consumer; return the token too, which is worth nothing after a refusal."""
        token = tokens.new_token()

        def decide(before: Comparison, now: datetime) -> Verdict:
            is_drifted = is_comparison_drifted(self.connection, before)
            return protocol.claim(before, token_sha256=tokens.token_sha256(token), is_drifted=is_drifted, now=now)

        return self._settle(comparison_id, decide), token

    def progress(self, comparison_id: UUID, *, token: str, current: int, candidate: int) -> Outcome:
        """Renew a claim's lease and keep its counts."""
        return self._settle(
            comparison_id,
            lambda before, now: protocol.progress(
                before, protocol.Call(token=token, now=now), current=current, candidate=candidate
            ),
        )

    def cancel(self, comparison_id: UUID, *, expected_version: int) -> Outcome:
        """Cancel a comparison, or ask its consumer to stop."""
        return self._settle(
            comparison_id,
            lambda before, now: protocol.cancel(before, expected_version=expected_version, now=now),
        )

    def finish(
        self, comparison_id: UUID, *, token: str, sha256: str, outcome: Ending, error_code: str | None
    ) -> Outcome:
        """End a claimed comparison without a result."""
        return self._settle(
            comparison_id,
            lambda before, now: protocol.finish(
                before, protocol.Call(token=token, now=now, sha256=sha256), outcome=outcome, error_code=error_code
            ),
        )

    def settle(self, before: Comparison, verdict: Verdict) -> Outcome:
        """Write what was decided about a comparison whose row is locked."""
        return Outcome(self._keep(before, verdict.after), verdict.refusal)

    def _settle(self, comparison_id: UUID, decide: Callable[[Comparison, datetime], Verdict]) -> Outcome:
        before = store.get(self.connection, comparison_id, lock=True)
        return self.settle(before, decide(before, self.clock()))

    def _replay(self, intent: Intent, *, key: str) -> Outcome | None:
        """Return what this key has made, or a refusal where that was of another input; None where the key is new."""
        made = store.with_key(self.connection, intent.project_binding_id, key=key)
        if made is None:
            return None
        if made.input_sha256 != intents.input_digest(intent):
            return Outcome(None, KeyReused())
        return Outcome(self.reconcile(made.id))

    def _create(self, intent: Intent, *, key: str, rule: Mapping[str, Any]) -> Outcome:
        try:
            comparison = self._insert(intent, key=key, rule=rule)
        except HubError as refusal:  # Another creation with this key may have come in since it was looked for.
            return self._replay(intent, key=key) or Outcome(None, refusal)
        self._record("comparison.create", None, comparison)
        return Outcome(comparison, is_new=True)

    def _insert(self, intent: Intent, *, key: str, rule: Mapping[str, Any]) -> Comparison:
        """Add the comparison; after a HubError that it raises an expired claim may have been written, and no more."""
        active = store.active_of(self.connection, intent.project_binding_id)
        is_taken = active is not None and self.reconcile(active.id).is_active
        comparison = self._checked(intent, key=key, rule=rule)
        if is_taken:
            raise ComparisonActive
        try:
            store.insert(self.connection, comparison)
        except UniqueViolated:
            raise ComparisonActive from None
        return comparison

    def _checked(self, intent: Intent, *, key: str, rule: Mapping[str, Any]) -> Comparison:
        """Return the comparison that *intent* makes; raises BrokenRule or NotEligible."""
        found = participants_of(self.connection, intent)
        intents.check_belongs(intent, found)
        intents.check_eligible(found)
        pins = intents.pins_of(intent, found, capability=CAPABILITIES[found.binding.capability])
        return Comparison(
            id=uuid.uuid4(),
            project_id=found.binding.project_id,
            capability=found.binding.capability,
            intent=intent,
            idempotency_key=key,
            input_sha256=intents.input_digest(intent),
            pins=pins,
            pins_digest=sha256_of_json(pins),
            rule=dict(rule),
            case_count=found.revision.case_count,
            status="pending",
            version=1,
            created_at=self.clock(),
        )

    def _keep(self, before: Comparison, after: Comparison) -> Comparison:
        if after != before:
            store.change(self.connection, after)
        if after.status != before.status:
            self._record(_ACTIONS[after.status], before, after)
        return after

    def _record(self, action: str, before: Comparison | None, after: Comparison) -> None:
        actor = HUB if after.status == "interrupted" else self.actor
        change = Change(action=action, before=before, after=after, project_id=after.project_id)
        audit.record(self.connection, change, actor=actor, at=self.clock())


_ACTIONS = {
    "running": "comparison.claim",
    "cancel_requested": "comparison.request_cancel",
    "cancelled": "comparison.cancel",
    "completed": "comparison.complete",
    "failed": "comparison.fail",
    "interrupted": "comparison.interrupt",
}


def interrupt_all(connection: Connection, at: datetime) -> None:
    """Interrupt every active comparison, since the database was restored, and clear every claim's token.

    The tokens of ended ones too: who has one has it from another life of the data.
    """
    restoring = Comparisons(connection, HUB, lambda: at)
    for before in store.lock_active(connection):
        restoring.settle(before, protocol.Verdict(protocol.restored(before, now=at)))
    store.clear_tokens(connection)


def participants_of(connection: Connection, intent: Intent) -> Participants:
    """Return everything that *intent* names; raises UnknownReference."""
    binding = catalog.refer(connection, catalog_domain.ProjectBinding, intent.project_binding_id)
    revision = suites.refer_revision(connection, intent.suite_revision_id)
    [stable_route] = catalog.find(
        connection, catalog_domain.Route, project_binding_id=binding.id, slug=catalog_domain.STABLE
    )
    return Participants(
        binding=binding,
        client=catalog.refer(connection, catalog_domain.ServiceClient, intent.consumer_client_id),
        suite=suites.get_suite(connection, revision.suite_id),
        revision=revision,
        corpora=store.corpora_of(connection, revision.id),
        current=_side(connection, intent.current_deployment_id),
        candidate=_side(connection, intent.candidate_deployment_id),
        stable_route=stable_route,
        candidate_route=catalog.refer(connection, catalog_domain.Route, intent.candidate_route_id),
    )


def is_comparison_drifted(connection: Connection, comparison: Comparison) -> bool:
    """Tell whether what *comparison* pinned is no longer so."""
    return intents.is_drifted(
        comparison.intent,
        participants_of(connection, comparison.intent),
        capability=CAPABILITIES[comparison.capability],
        pins_digest=comparison.pins_digest,
    )


def _side(connection: Connection, deployment_id: UUID) -> Side:
    deployment = catalog.refer(connection, catalog_domain.Deployment, deployment_id)
    return Side(
        deployment=deployment,
        artifact=catalog.get(connection, catalog_domain.Artifact, deployment.artifact_id),
        runtime=catalog.get(connection, catalog_domain.Runtime, deployment.runtime_id),
        identity=catalog.get(connection, catalog_domain.EmbeddingIdentity, deployment.embedding_identity_id),
    )
