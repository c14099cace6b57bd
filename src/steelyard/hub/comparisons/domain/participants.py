"""What takes part in a comparison, as the catalogue has it at one moment."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from steelyard.hub.catalog.domain import (
        Artifact,
        Deployment,
        EmbeddingIdentity,
        ProjectBinding,
        Route,
        Runtime,
        ServiceClient,
    )
    from steelyard.hub.suites.domain import Suite, SuiteRevision


@dataclass(frozen=True, kw_only=True)
class Side:
    """A deployment with its parts."""

    deployment: Deployment
    artifact: Artifact
    runtime: Runtime
    identity: EmbeddingIdentity


@dataclass(frozen=True, kw_only=True)
class Participants:
    """Everything that an intent names, and the binding's own route; *corpora* are those that the cases' labels name."""

    binding: ProjectBinding
    client: ServiceClient
    suite: Suite
    revision: SuiteRevision
    corpora: frozenset[str]
    current: Side
    candidate: Side
    stable_route: Route
    candidate_route: Route
