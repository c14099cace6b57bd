"""The OpenAPI document's examples of answers, by the name of their schema."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pydantic import TypeAdapter

from steelyard.hub.audit.domain import AuditEvent, kept_of
from steelyard.hub.catalog.examples import BINDING, CLIENT, DEPLOYMENT, PROJECT, ROUTE, THINGS
from steelyard.hub.comparisons.examples import examples_of
from steelyard.hub.credentials.domain import Credential
from steelyard.hub.credentials.schemas import Issued
from steelyard.hub.declare.domain import Step
from steelyard.hub.declare.schemas import Applied
from steelyard.hub.gateway.domain.entries import LoggedRequest
from steelyard.hub.rest.paging import Page
from steelyard.hub.suites.domain import Case, Content, Review, Suite, SuiteRevision

if TYPE_CHECKING:
    from collections.abc import Mapping

_PUBLIC_ID = "0a1B2c3D4e5F"
_CREDENTIAL = Credential(
    id=CLIENT.id,
    public_id=_PUBLIC_ID,
    role="client",
    name="December 2026",
    service_client_id=CLIENT.id,
    created_at=CLIENT.created_at,
    revoked_at=None,
)
_CASE = Case(
    case_id=PROJECT.id,
    query="How do I get a refund?",
    labels={"billing-7": 3, "billing-2": 1},
    critical=True,
    review=Review(reviewer="Ada", reviewed_at=PROJECT.created_at),
    label_provenance={"corpus_revision": "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"},
)
_CONTENT = Content(retrieval_settings={"top_k": 10, "min_score": 0.2}, cases=(_CASE,))
_SUITE = Suite(
    id=CLIENT.id, project_id=PROJECT.id, slug="faq", name="Frequent questions", created_at=PROJECT.created_at
)
_REVISION = SuiteRevision(
    id=CLIENT.id,
    suite_id=_SUITE.id,
    number=1,
    digest=_CONTENT.digest,
    retrieval_settings=_CONTENT.retrieval_settings,
    retrieval_config_sha256=_CONTENT.retrieval_config_sha256,
    case_count=1,
    created_at=PROJECT.created_at,
)
_REQUEST_ID = "0d9cd3f54d2f4a608a3b0a4f8d2b6f11"
_LOGGED = LoggedRequest(
    request_id=_REQUEST_ID,
    service_client_id=CLIENT.id,
    credential_id=_CREDENTIAL.id,
    project_binding_id=BINDING.id,
    route_id=ROUTE.id,
    deployment_id=DEPLOYMENT.id,
    capability="rag.embedding@1",
    input_type="query",
    input_sha256="9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
    input_count=1,
    started_at=BINDING.created_at,
    completed_at=BINDING.created_at,
    status="completed",
    latency_ms=12.5,
    tokens=8,
    is_truncated=False,
    error_code=None,
)
_APPLIED = Applied(
    steps=[Step(action="create", kind="project", place=PROJECT.slug, changes=[])],
    plan_digest="3d27d30c982eab1e574a94d3cffba29cbecd666c2ad6e095f5b8c7fceb8597f1",
    is_applied=False,
)
_EVENT = AuditEvent(
    id=17,
    at=BINDING.created_at,
    actor_role="operator",
    actor=_PUBLIC_ID,
    action="deployment.create",
    subject_kind="Deployment",
    subject_id=str(DEPLOYMENT.id),
    project_id=DEPLOYMENT.project_id,
    before=None,
    after=kept_of(DEPLOYMENT),
    request_id=_REQUEST_ID,
)


def examples() -> Mapping[str, object]:
    """Return each answer that a schema stands for, and a page of it."""
    compared = examples_of(_SUITE, _REVISION, _CASE)
    things: tuple[Any, ...] = (*THINGS, _SUITE, _REVISION, _CASE, _CREDENTIAL, _EVENT, _LOGGED, *compared)
    alone = {type(thing).__name__: _plain(thing) for thing in things}
    pages = {
        f"Page_{name}_": _plain(Page(items=[example], limit=50, offset=0, has_more=False))
        for name, example in alone.items()
    }
    # It shows the form and can be nobody's: its check digits are wrong.
    secret = f"steelyard_client_{_PUBLIC_ID}_{'0' * 49}"
    return {
        **alone,
        **pages,
        "Applied": _plain(_APPLIED),
        "Issued": _plain(Issued(credential=_CREDENTIAL, secret=secret)),
    }


def _plain(value: object) -> object:
    return TypeAdapter(type(value)).dump_python(value, mode="json")
