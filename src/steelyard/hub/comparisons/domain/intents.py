"""Whether what an intent names may be compared, and what of it is pinned."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from steelyard.hall.canonical import sha256_of_json
from steelyard.hub.catalog.domain import check_can_be_current, check_can_be_tried
from steelyard.hub.errors import BrokenRule, CorpusMismatch, NotEligible, RetrievalConfigMismatch

if TYPE_CHECKING:
    from steelyard.hub.catalog.domain import ProjectBinding, Route, ServiceClient
    from steelyard.hub.comparisons.domain.capability import Capability
    from steelyard.hub.comparisons.domain.comparison import Intent
    from steelyard.hub.comparisons.domain.participants import Participants, Side


def input_digest(intent: Intent) -> str:
    """Return the digest by which two creations with one key are told to be the same."""
    return sha256_of_json({name: str(value) for name, value in asdict(intent).items()})


def check_belongs(intent: Intent, found: Participants) -> None:
    """Raise BrokenRule where the things named do not belong together, whatever state they are in."""
    project_id = found.binding.project_id
    if found.client.project_binding_id != found.binding.id:
        raise BrokenRule("The consumer is not a service client of this binding")
    for name, side in (("current", found.current), ("candidate", found.candidate)):
        if side.deployment.project_id != project_id:
            raise BrokenRule(f"The {name} deployment belongs to another project")
    if found.suite.project_id != project_id:
        raise BrokenRule("The suite revision belongs to another project")
    _check_route(found.candidate_route, intent=intent)
    if found.revision.retrieval_config_sha256 != intent.retrieval_config_sha256:
        raise RetrievalConfigMismatch
    if found.corpora != {intent.corpus_sha256}:
        raise CorpusMismatch


def _check_route(route: Route, *, intent: Intent) -> None:
    if route.project_binding_id != intent.project_binding_id:
        raise BrokenRule("The candidate route belongs to another binding")
    if route.deployment_id != intent.candidate_deployment_id:
        raise BrokenRule("The candidate route does not lead to the candidate deployment")


def check_eligible(found: Participants) -> None:
    """Raise NotEligible where the things named may not be compared in their present state."""
    _check_open(found.binding, found.client)
    check_can_be_current(found.current.deployment, binding=found.binding)
    if found.binding.current_deployment_id != found.current.deployment.id:
        raise NotEligible(f"{found.current.deployment.slug} is not the binding's current deployment")
    check_can_be_tried(found.candidate.deployment, binding=found.binding)
    if not found.candidate_route.is_active:
        raise NotEligible(f"The route {found.candidate_route.slug} is not active")


def _check_open(binding: ProjectBinding, client: ServiceClient) -> None:
    if not binding.is_active:
        raise NotEligible("The binding is not active")
    if not client.is_active:
        raise NotEligible(f"{client.slug} is revoked")
    if binding.capability not in client.capabilities:
        raise NotEligible(f"{client.slug} is not authorised for {binding.capability}")


def pins_of(intent: Intent, found: Participants, *, capability: Capability) -> dict[str, Any]:
    """Return what must not change while the comparison runs, as plain JSON without floats."""
    revision = found.revision
    return {
        "capability": capability.name,
        "project_binding_id": str(intent.project_binding_id),
        "consumer_client_id": str(intent.consumer_client_id),
        "suite": {
            "id": str(found.suite.id),
            "slug": found.suite.slug,
            "revision_id": str(revision.id),
            "number": revision.number,
            "digest": revision.digest,
            "case_count": revision.case_count,
        },
        "corpus_sha256": intent.corpus_sha256,
        "retrieval_config_sha256": revision.retrieval_config_sha256,
        "current": _leg(found.current, found.stable_route, index_ref=intent.current_index_ref, capability=capability),
        "candidate": _leg(
            found.candidate, found.candidate_route, index_ref=intent.candidate_index_ref, capability=capability
        ),
    }


def _leg(side: Side, route: Route, *, index_ref: str, capability: Capability) -> dict[str, Any]:
    deployment = side.deployment
    return {
        "deployment": {
            "id": str(deployment.id),
            "slug": deployment.slug,
            "served_model": deployment.served_model,
            "allows_truncation": deployment.allows_truncation,
        },
        "route": {"id": str(route.id), "slug": route.slug},
        "index_ref": index_ref,
        **capability.profile_of(side),
    }


def is_drifted(intent: Intent, found: Participants, *, capability: Capability, pins_digest: str) -> bool:
    """Tell whether what was pinned is no longer so, or may no longer be compared."""
    try:
        check_belongs(intent, found)
        check_eligible(found)
    except (BrokenRule, NotEligible):
        return True
    return sha256_of_json(pins_of(intent, found, capability=capability)) != pins_digest
