"""One small comparison, as the OpenAPI document shows it: computed by the same functions as a real one."""

from __future__ import annotations

from dataclasses import asdict, replace
from datetime import timedelta
from typing import TYPE_CHECKING

from steelyard.hall.canonical import sha256_of_json
from steelyard.hub.catalog.examples import ARTIFACT, BINDING, CLIENT, DEPLOYMENT, IDENTITY, PROJECT, ROUTE, RUNTIME
from steelyard.hub.comparisons import schemas
from steelyard.hub.comparisons.capabilities.retrieval import Retrieval
from steelyard.hub.comparisons.domain import intents, protocol
from steelyard.hub.comparisons.domain.capability import Outcome
from steelyard.hub.comparisons.domain.comparison import Comparison, Intent
from steelyard.hub.comparisons.domain.eligibility import Rule
from steelyard.hub.comparisons.domain.measured import ReportedLeg
from steelyard.hub.comparisons.domain.participants import Participants, Side
from steelyard.hub.comparisons.domain.summary import evaluate

if TYPE_CHECKING:
    from pydantic import BaseModel

    from steelyard.hub.catalog.domain import Deployment
    from steelyard.hub.suites.domain import Case, Suite, SuiteRevision

_REQUEST_ID = "0d9cd3f54d2f4a608a3b0a4f8d2b6f11"
_REVISION = "3d27d30c982eab1e574a94d3cffba29cbecd666c2ad6e095f5b8c7fceb8597f1"
_CAPABILITY = Retrieval()


def examples_of(suite: Suite, revision: SuiteRevision, case: Case) -> list[BaseModel]:
    """Return one answer of each kind, of a comparison over a *revision* of a *suite* that has one *case*."""
    comparison = _comparison(suite, revision, case)
    outcome = Outcome(
        case_id=case.case_id,
        answer=[{"chunk_id": chunk_id, "document_id": None, "score": 0.83} for chunk_id in case.labels],
        latency_ms=14.2,
        error_code=None,
    )
    leg = ReportedLeg(outcomes={case.case_id: outcome}, gateway_latency_ms={case.case_id: 12.5})
    evaluation = evaluate(
        _CAPABILITY,
        [case],
        {"current": leg, "candidate": leg},
        settings=revision.retrieval_settings,
        rule=Rule(),
        seed=comparison.pins_digest,
    )
    reported = schemas.ReportedCaseLeg(
        ranked_results=outcome.answer,
        latency_ms=outcome.latency_ms,
        error_code=None,
        gateway_request_id=_REQUEST_ID,
        gateway_latency_ms=12.5,
        metrics=evaluation.values["current"][case.case_id],
    )
    return [
        schemas.shown(_completed(comparison), summary=evaluation.summary),
        _claimed(comparison, revision, case),
        schemas.heartbeat_of(comparison),
        schemas.ReportedCase(
            case_id=case.case_id,
            query=case.query,
            critical=case.critical,
            labels=case.labels,
            current=reported,
            candidate=reported,
        ),
    ]


def _comparison(suite: Suite, revision: SuiteRevision, case: Case) -> Comparison:
    current = replace(DEPLOYMENT, id=PROJECT.id, slug="minilm-l3-a", stage="production")
    intent = Intent(
        project_binding_id=BINDING.id,
        consumer_client_id=CLIENT.id,
        suite_revision_id=revision.id,
        current_deployment_id=current.id,
        candidate_deployment_id=DEPLOYMENT.id,
        candidate_route_id=ROUTE.id,
        corpus_sha256=case.label_provenance["corpus_revision"],
        retrieval_config_sha256=revision.retrieval_config_sha256,
        current_index_ref="faq-minilm-l3",
        candidate_index_ref="faq-minilm-l6",
    )
    found = Participants(
        binding=replace(BINDING, current_deployment_id=current.id),
        client=CLIENT,
        suite=suite,
        revision=revision,
        corpora=frozenset({intent.corpus_sha256}),
        current=_side(current),
        candidate=_side(DEPLOYMENT),
        stable_route=replace(ROUTE, id=BINDING.id, slug="stable", kind="stable", deployment_id=None),
        candidate_route=ROUTE,
    )
    pins = intents.pins_of(intent, found, capability=_CAPABILITY)
    pending = Comparison(
        id=RUNTIME.id,
        project_id=PROJECT.id,
        capability=_CAPABILITY.name,
        intent=intent,
        idempotency_key="faq-l3-l6-2026-12-01",
        input_sha256=intents.input_digest(intent),
        pins=pins,
        pins_digest=sha256_of_json(pins),
        rule=asdict(Rule()),
        case_count=revision.case_count,
        status="pending",
        version=1,
        created_at=BINDING.created_at,
    )
    claimed_at = BINDING.created_at + timedelta(minutes=1)
    return protocol.claim(pending, token_sha256="", is_drifted=False, now=claimed_at).after


def _side(deployment: Deployment) -> Side:
    return Side(deployment=deployment, artifact=ARTIFACT, runtime=RUNTIME, identity=IDENTITY)


def _completed(comparison: Comparison) -> Comparison:
    return replace(
        comparison,
        status="completed",
        version=comparison.version + 1,
        current_completed_cases=comparison.case_count,
        candidate_completed_cases=comparison.case_count,
        consumer_revision_sha256=_REVISION,
        ended_at=BINDING.created_at + timedelta(minutes=2),
    )


def _claimed(comparison: Comparison, revision: SuiteRevision, case: Case) -> schemas.Claimed:
    return schemas.claimed_of(comparison, revision, [case], token=schemas.TOKEN_EXAMPLE, capability=_CAPABILITY)
