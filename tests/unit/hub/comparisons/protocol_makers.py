"""A comparison in each of its states, and all that takes part in it, as plain values."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

from steelyard.hall.canonical import sha256_of_json
from steelyard.hub.catalog.examples import ARTIFACT, BINDING, CLIENT, DEPLOYMENT, IDENTITY, PROJECT, ROUTE, RUNTIME
from steelyard.hub.comparisons.capabilities.retrieval import Retrieval
from steelyard.hub.comparisons.domain import intents, protocol, tokens
from steelyard.hub.comparisons.domain.comparison import Comparison, Intent, Status
from steelyard.hub.comparisons.domain.participants import Participants, Side
from steelyard.hub.comparisons.domain.protocol import Call
from steelyard.hub.suites.domain import Suite, SuiteRevision

T0 = datetime(2026, 12, 1, 12, 0, tzinfo=UTC)
US = timedelta(microseconds=1)
CORPUS = "ab" * 32
SETTINGS = {"top_k": 10}
TOKEN = tokens.PREFIX + "right"
CASES = 3
CAPABILITY = Retrieval()
REVISION = "cd" * 32

BINDING_NOW = replace(BINDING, current_deployment_id=UUID(int=50))
PRODUCTION = replace(DEPLOYMENT, id=UUID(int=50), slug="production", stage="production")
STABLE_ROUTE = replace(ROUTE, id=UUID(int=51), slug="stable", kind="stable", deployment_id=None)
SUITE = Suite(id=UUID(int=52), project_id=PROJECT.id, slug="faq", name="Questions", created_at=T0)
SUITE_REVISION = SuiteRevision(
    id=UUID(int=53),
    suite_id=SUITE.id,
    number=2,
    digest="ef" * 32,
    retrieval_settings=SETTINGS,
    retrieval_config_sha256=sha256_of_json(SETTINGS),
    case_count=CASES,
    created_at=T0,
)
INTENT = Intent(
    project_binding_id=BINDING.id,
    consumer_client_id=CLIENT.id,
    suite_revision_id=SUITE_REVISION.id,
    current_deployment_id=PRODUCTION.id,
    candidate_deployment_id=DEPLOYMENT.id,
    candidate_route_id=ROUTE.id,
    corpus_sha256=CORPUS,
    retrieval_config_sha256=SUITE_REVISION.retrieval_config_sha256,
    current_index_ref="index-current",
    candidate_index_ref="index-candidate",
)
PARTICIPANTS = Participants(
    binding=BINDING_NOW,
    client=CLIENT,
    suite=SUITE,
    revision=SUITE_REVISION,
    corpora=frozenset({CORPUS}),
    current=Side(deployment=PRODUCTION, artifact=ARTIFACT, runtime=RUNTIME, identity=IDENTITY),
    candidate=Side(deployment=DEPLOYMENT, artifact=ARTIFACT, runtime=RUNTIME, identity=IDENTITY),
    stable_route=STABLE_ROUTE,
    candidate_route=ROUTE,
)
PINS = intents.pins_of(INTENT, PARTICIPANTS, capability=CAPABILITY)
PENDING = Comparison(
    id=UUID(int=60),
    project_id=PROJECT.id,
    capability=CAPABILITY.name,
    intent=INTENT,
    idempotency_key="key-00000001",
    input_sha256=intents.input_digest(INTENT),
    pins=PINS,
    pins_digest=sha256_of_json(PINS),
    rule={},
    case_count=CASES,
    status="pending",
    version=1,
    created_at=T0,
)


def call(*, now: datetime = T0, token: str = TOKEN, sha256: str | None = "1" * 64) -> Call:
    return Call(token=token, now=now, sha256=sha256)


def claimed(*, at: datetime = T0) -> Comparison:
    """Return the comparison as its claim at this time leaves it."""
    verdict = protocol.claim(PENDING, token_sha256=tokens.token_sha256(TOKEN), is_drifted=False, now=at)
    assert verdict.refusal is None
    return verdict.after


def in_state(status: Status) -> Comparison:
    """Return the comparison as a course of allowed calls, all at T0, leaves it in *status*."""
    running = claimed()
    asked = protocol.cancel(running, expected_version=2, now=T0).after
    made: dict[Status, Comparison] = {
        "pending": PENDING,
        "running": running,
        "cancel_requested": asked,
        "completed": protocol.publish(
            running, call(), pins_digest=running.pins_digest, is_drifted=False, fault=None, revision=REVISION
        ).after,
        "failed": protocol.finish(running, call(), outcome="failed", error_code="OUT_OF_MEMORY").after,
        "cancelled": protocol.finish(asked, call(), outcome="cancelled", error_code=None).after,
        "interrupted": protocol.reconciled(running, now=T0 + protocol.LEASE),
    }
    assert made[status].status == status
    return made[status]


def with_fields(comparison: Comparison, fields: dict[str, Any]) -> Comparison:
    """Return the comparison with these fields instead."""
    return replace(comparison, **fields)
