"""What the catalogue holds, and the rules between its things.

Everything belongs to a project. Artifacts, runtimes and embedding identities never change; a deployment ties one of
each together and changes only in its stage and in whether it is active. A thing's `version` counts its changes.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Literal, get_args
from uuid import UUID

from steelyard.hub.errors import BrokenRule, NotEligible, VersionConflict

Capability = Literal["rag.embedding@1"]
Channel = Literal["stable"]
Stage = Literal["production", "nonproduction"]
RouteKind = Literal["stable", "experiment"]
RuntimeKind = Literal[
    "steelyard", "text-embeddings-inference", "vllm", "llama.cpp", "infinity", "ollama", "openai-compatible"
]
Overlong = Literal["refuses", "reports", "truncates"]
Pooling = Literal["mean", "cls", "last", "max", "none"]
CAPABILITIES: tuple[str, ...] = get_args(Capability)
STABLE = "stable"

# What each server makes of an input that is longer than its model takes, unless it is told otherwise.
OVERLONG_OF: dict[RuntimeKind, Overlong] = {
    "steelyard": "reports",
    "text-embeddings-inference": "refuses",
    "vllm": "refuses",
    "llama.cpp": "refuses",
    "infinity": "truncates",
    "ollama": "truncates",
    "openai-compatible": "truncates",  # Of an unknown server the worst is assumed.
}


@dataclass(frozen=True, kw_only=True)
class Project:
    """The owner of everything else."""

    id: UUID
    slug: str
    name: str
    created_at: datetime


@dataclass(frozen=True, kw_only=True)
class ProjectBinding:
    """A project's use of one capability, with its pointer to the current production deployment."""

    id: UUID
    project_id: UUID
    capability: Capability
    channel: Channel
    is_active: bool
    current_deployment_id: UUID | None
    version: int
    created_at: datetime


@dataclass(frozen=True, kw_only=True)
class ServiceClient:
    """A program of a project, bound to exactly one binding; once revoked it stays so."""

    id: UUID
    project_id: UUID
    project_binding_id: UUID
    slug: str
    name: str
    capabilities: list[Capability]
    is_active: bool
    version: int
    created_at: datetime


@dataclass(frozen=True, kw_only=True)
class Artifact:
    """Model weights; *files* gives the SHA-256 of each file."""

    id: UUID
    project_id: UUID
    slug: str
    source: str
    revision: str
    files: dict[str, str]
    created_at: datetime


@dataclass(frozen=True, kw_only=True)
class Runtime:
    """An OpenAI-compatible embedding server; *base_url* ends where `/embeddings` is appended."""

    id: UUID
    project_id: UUID
    slug: str
    kind: RuntimeKind
    base_url: str
    on_overlong: Overlong
    key_variable: str | None
    timeout_s: float
    created_at: datetime


@dataclass(frozen=True, kw_only=True)
class EmbeddingIdentity:
    """What makes two vectors comparable; *max_length* is in tokens, the prompts are put before the text."""

    id: UUID
    project_id: UUID
    slug: str
    model: str
    dimension: int
    pooling: Pooling
    is_normalized: bool
    query_prompt: str
    document_prompt: str
    max_length: int
    dtype: str
    created_at: datetime


@dataclass(frozen=True, kw_only=True)
class Deployment:
    """One artifact on one runtime under one embedding identity; once retired it stays so."""

    id: UUID
    project_id: UUID
    slug: str
    capability: Capability
    artifact_id: UUID
    runtime_id: UUID
    embedding_identity_id: UUID
    served_model: str
    stage: Stage
    allows_truncation: bool
    is_active: bool
    version: int
    created_at: datetime


@dataclass(frozen=True, kw_only=True)
class Route:
    """How traffic reaches a deployment; the stable route leads wherever its binding points."""

    id: UUID
    project_binding_id: UUID
    slug: str
    kind: RouteKind
    deployment_id: UUID | None
    is_active: bool
    version: int
    created_at: datetime


Thing = Project | ProjectBinding | ServiceClient | Artifact | Runtime | EmbeddingIdentity | Deployment | Route
Changeable = ProjectBinding | ServiceClient | Deployment | Route


def check_version(thing: Changeable, *, expected_version: int) -> None:
    """Raise VersionConflict unless *thing* is as the caller last saw it.

    This comes before every other rule: a verdict about a state that the caller has not seen would mislead.
    """
    if thing.version != expected_version:
        raise VersionConflict(current_version=thing.version)


def check_experiment_slug(slug: str) -> None:
    """Raise BrokenRule for the name that every binding's own route has."""
    if slug == STABLE:
        raise BrokenRule(f"{STABLE} is the slug of the binding's own route: choose another")


def check_same_project(thing: Artifact | Runtime | EmbeddingIdentity | Deployment, *, project_id: UUID) -> None:
    """Raise BrokenRule unless *thing* belongs to the project."""
    if thing.project_id != project_id:
        raise BrokenRule(f"{thing.slug} belongs to another project")


def check_can_be_current(deployment: Deployment, *, binding: ProjectBinding) -> None:
    """Raise unless *binding* may point at *deployment*."""
    check_same_project(deployment, project_id=binding.project_id)
    _check_serves(deployment, binding=binding)
    if deployment.stage != "production":
        raise NotEligible(f"{deployment.slug} is nonproduction: only a production deployment can be current")


def check_can_be_tried(deployment: Deployment, *, binding: ProjectBinding) -> None:
    """Raise unless an experiment route of *binding* may lead to *deployment*."""
    check_same_project(deployment, project_id=binding.project_id)
    _check_serves(deployment, binding=binding)
    if deployment.stage != "nonproduction":
        raise NotEligible(f"{deployment.slug} is in production: an experiment route leads to a nonproduction one")


def _check_serves(deployment: Deployment, *, binding: ProjectBinding) -> None:
    if deployment.capability != binding.capability:
        raise BrokenRule(f"{deployment.slug} serves {deployment.capability}, not {binding.capability}")
    if not deployment.is_active:
        raise NotEligible(f"{deployment.slug} is retired")


def check_can_be_staged(deployment: Deployment) -> None:
    """Raise NotEligible for a retired deployment, which stays as it was."""
    if not deployment.is_active:
        raise NotEligible(f"{deployment.slug} is retired")


def check_is_unused(deployment: Deployment, *, current_of: list[ProjectBinding], routes: list[Route]) -> None:
    """Raise NotEligible while a binding points at *deployment* or an active route leads to it."""
    if current_of:
        raise NotEligible(
            f"{deployment.slug} is the current deployment of a binding: point the binding at another one first"
        )
    active = [route.slug for route in routes if route.is_active]
    if active:
        raise NotEligible(f"{deployment.slug} has the active route {active[0]}: deactivate the route first")
