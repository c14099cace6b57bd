"""What a declarative document looks like: projects by slug, and in each its things by their slugs.

Everything refers to others by slug, and nothing in it is secret.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

from pydantic import ConfigDict, Field, model_validator

from steelyard.hub.catalog.domain import Capability, Stage
from steelyard.hub.catalog.schemas import ArtifactFields, EmbeddingIdentityFields, RuntimeFields
from steelyard.hub.declare.domain import Step
from steelyard.hub.rest.fields import Body, Name, Sha256, Slug
from steelyard.hub.suites.schemas import NewSuiteRevision

if TYPE_CHECKING:
    from collections.abc import Sized

_MOST_THINGS = 1000  # One transaction writes them all, and other writers wait for it.
_MOST_CASES = 5000  # For the same reason: each takes a third of a millisecond.
_Few: Any = Field(default_factory=dict, max_length=_MOST_THINGS)


class DeploymentPart(Body):
    """An artifact on a runtime under an identity."""

    artifact: Slug
    runtime: Slug
    identity: Slug
    stage: Stage
    capability: Capability = "rag.embedding@1"
    served_model: Name | None = None
    allows_truncation: bool = Field(default=False, strict=True)


class RoutePart(Body):
    """An experiment route of a binding."""

    deployment: Slug
    is_active: bool = Field(default=True, strict=True)


class ClientPart(Body):
    """A program that calls through a binding; its credential is issued apart."""

    name: Name


class BindingPart(Body):
    """A project's use of a capability. Its pointer is set here only while it has none."""

    is_active: bool = Field(default=True, strict=True)
    current_deployment: Slug | None = None
    routes: Annotated[dict[Slug, RoutePart], _Few]
    clients: Annotated[dict[Slug, ClientPart], _Few]


class SuitePart(Body):
    """A set of reviewed questions, with what it asks from now on."""

    name: Name
    revision: NewSuiteRevision | None = None


class ProjectPart(Body):
    """A project and what belongs to it."""

    name: Name
    artifacts: Annotated[dict[Slug, ArtifactFields], _Few]
    runtimes: Annotated[dict[Slug, RuntimeFields], _Few]
    identities: Annotated[dict[Slug, EmbeddingIdentityFields], _Few]
    deployments: Annotated[dict[Slug, DeploymentPart], _Few]
    bindings: Annotated[dict[Capability, BindingPart], _Few]
    suites: Annotated[dict[Slug, SuitePart], _Few]

    @property
    def size(self) -> int:
        """How many things belong to the project."""
        revisions = sum(part.revision is not None for part in self.suites.values())
        own: list[Sized] = [self.artifacts, self.runtimes, self.identities, self.deployments, self.bindings]
        under = sum(len(part.routes) + len(part.clients) for part in self.bindings.values())
        return sum(len(section) for section in own) + under + len(self.suites) + revisions

    @property
    def case_count(self) -> int:
        """How many cases the project's suites have."""
        return sum(len(part.revision.cases) for part in self.suites.values() if part.revision)


class Document(Body):
    """What the hub shall have, by slug. What is left out stays as it is."""

    projects: Annotated[dict[Slug, ProjectPart], Field(max_length=_MOST_THINGS)]

    @model_validator(mode="after")
    def _is_bounded(self) -> Document:
        if sum(1 + part.size for part in self.projects.values()) > _MOST_THINGS:
            raise ValueError(f"has more than {_MOST_THINGS} things: apply it in parts")
        if sum(part.case_count for part in self.projects.values()) > _MOST_CASES:
            raise ValueError(f"has more than {_MOST_CASES} cases: apply it in parts")
        return self


_EXAMPLE: dict[str, Any] = {
    "document": {
        "projects": {
            "search": {
                "name": "Product search",
                "bindings": {"rag.embedding@1": {}},
                "suites": {"faq": {"name": "FAQ"}},
            }
        }
    },
    "dry_run": True,
}


class Apply(Body):
    """A document to be planned or carried out."""

    model_config = ConfigDict(extra="forbid", json_schema_extra={"examples": [_EXAMPLE]})

    document: Document
    dry_run: bool = Field(strict=True, description="Say what would be done, and do nothing.")
    plan_digest: Sha256 | None = Field(
        None, description="The digest of a dry run: if the plan has become another one, nothing is done."
    )


class Applied(Body):
    """The plan, and whether it was carried out."""

    steps: list[Step]
    plan_digest: Sha256
    is_applied: bool
