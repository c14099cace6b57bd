"""What requests to the catalogue look like. Answers are the things of `domain` themselves."""

from __future__ import annotations

from typing import Annotated, Literal
from urllib.parse import urlsplit
from uuid import UUID

from pydantic import AfterValidator, Field, StringConstraints

from steelyard.hub.catalog.domain import Capability, Channel, Overlong, Pooling, RuntimeKind, Stage
from steelyard.hub.rest.fields import Body, CountFirst, Expected, Name, Sha256, Slug, Text, example
from steelyard.hub.rest.paging import PageQuery

_ID = "5b1f0f0e-8a55-4c0e-9a2f-3f4f6f3d2c11"


def _http_address(text: str) -> str:
    try:
        parts = urlsplit(text)
        port = parts.port
    except ValueError:
        raise ValueError("is no address") from None
    if parts.scheme not in ("http", "https") or not parts.hostname or port == 0:
        raise ValueError("must be http://host[:port]/path or https://…")
    if parts.username or parts.password or parts.query or parts.fragment or text.endswith("/"):
        raise ValueError("must have no user, password, query, fragment or final slash")
    return text


Address = Annotated[
    str,
    StringConstraints(max_length=500, pattern=r"^https?://[A-Za-z0-9.\[\]:-]+(/[!-~]*[!-.0-~])?$"),
    AfterValidator(_http_address),
]


class NewProject(Body):
    """A project to be made."""

    model_config = example(slug="search", name="Product search")

    slug: Slug
    name: Name


class NewProjectBinding(Body):
    """A project's use of a capability."""

    model_config = example(project_id=_ID)

    project_id: UUID
    capability: Capability = "rag.embedding@1"
    channel: Channel = "stable"


class NewServiceClient(Body):
    """A program that will call the gateway."""

    model_config = example(project_binding_id=_ID, slug="indexer", name="Nightly indexer")

    project_binding_id: UUID
    slug: Slug
    name: Name
    capabilities: list[Capability] = Field(default=["rag.embedding@1"], min_length=1, max_length=1)


class ArtifactFields(Body):
    """What an artifact is, wherever it belongs."""

    source: Name = Field(description="Where the weights come from, such as a hub repository.")
    revision: Name = Field(description="The source's revision, such as a commit.")
    files: Annotated[dict[Name, Sha256], Field(min_length=1, max_length=1000), CountFirst()] = Field(
        description="SHA-256 by file name."
    )


class NewArtifact(ArtifactFields):
    """Model weights."""

    model_config = example(
        project_id=_ID,
        slug="all-minilm-l6-v2-int8",
        source="sentence-transformers/all-MiniLM-L6-v2",
        revision="int8 ONNX",
        files={"model.onnx": "8199be6f699a395f99f89df973f9dc5285fbcfcdb2ae1a4e1201dab014f3d2a6"},
    )

    project_id: UUID
    slug: Slug


class RuntimeFields(Body):
    """What a runtime is, wherever it belongs."""

    kind: RuntimeKind
    base_url: Address = Field(description="The address to which /embeddings is appended; it usually ends in /v1.")
    on_overlong: Overlong | None = Field(
        None,
        description="What the server makes of an input over the model's length: `refuses` it, `reports` that it cut "
        "it, or `truncates` in silence. Absent: what the kind of server does by default.",
    )
    key_variable: Annotated[str, StringConstraints(pattern=r"^STEELYARD_UPSTREAM_[A-Z0-9_]{1,100}$")] | None = Field(
        None, description="The environment variable of the hub that holds the server's key. The key is never stored."
    )
    timeout_s: float = Field(30.0, gt=0, le=600, allow_inf_nan=False, description="Longest wait for an answer.")


class NewRuntime(RuntimeFields):
    """A server that runs embedding models behind an OpenAI-compatible API."""

    model_config = example(
        project_id=_ID, slug="embed-a", kind="steelyard", base_url="http://127.0.0.1:8472/v1", timeout_s=30
    )

    project_id: UUID
    slug: Slug


class EmbeddingIdentityFields(Body):
    """What an embedding identity is, wherever it belongs."""

    model: Name
    dimension: int = Field(ge=1, le=65_536, strict=True)
    pooling: Pooling
    is_normalized: bool = Field(strict=True)
    query_prompt: Text = Field("", description="Put before every query, such as `query: `.")
    document_prompt: Text = Field("", description="Put before every document, such as `passage: `.")
    max_length: int = Field(ge=1, le=1_048_576, strict=True, description="Longest input in tokens.")
    dtype: Annotated[str, StringConstraints(pattern=r"^[a-z0-9_]{1,16}$")]


class NewEmbeddingIdentity(EmbeddingIdentityFields):
    """What makes two vectors comparable."""

    model_config = example(
        project_id=_ID,
        slug="minilm-l6",
        model="all-minilm-l6-v2-int8",
        dimension=384,
        pooling="mean",
        is_normalized=True,
        max_length=256,
        dtype="int8",
    )

    project_id: UUID
    slug: Slug


class NewDeployment(Body):
    """An artifact on a runtime under an identity."""

    model_config = example(
        slug="minilm-l6-a", artifact_id=_ID, runtime_id=_ID, embedding_identity_id=_ID, stage="nonproduction"
    )

    slug: Slug
    capability: Capability = "rag.embedding@1"
    artifact_id: UUID
    runtime_id: UUID
    embedding_identity_id: UUID
    served_model: Name | None = Field(None, description="What the runtime calls the model. Absent: as the identity.")
    stage: Stage
    allows_truncation: bool = Field(default=False, strict=True)


class NewRoute(Body):
    """An experiment: a second way for a binding's traffic, to a nonproduction deployment."""

    model_config = example(project_binding_id=_ID, slug="minilm-l3-trial", deployment_id=_ID)

    project_binding_id: UUID
    slug: Slug
    deployment_id: UUID


class SetCurrent(Expected):
    """The deployment that a binding's stable traffic goes to from now on."""

    model_config = example(deployment_id=_ID, expected_version=1)

    deployment_id: UUID


class SetStage(Expected):
    """A deployment's stage from now on."""

    model_config = example(stage="production", expected_version=1)

    stage: Literal["production", "nonproduction"]


class ProjectQuery(PageQuery):
    """Projects."""

    slug: Slug | None = None


class OwnedQuery(PageQuery):
    """Things of projects."""

    project_id: UUID | None = None
    slug: Slug | None = None


class BindingQuery(PageQuery):
    """Project bindings."""

    project_id: UUID | None = None
    capability: Capability | None = None
    is_active: bool | None = None


class ClientQuery(OwnedQuery):
    """Service clients."""

    project_binding_id: UUID | None = None
    is_active: bool | None = None


class DeploymentQuery(OwnedQuery):
    """Deployments."""

    stage: Stage | None = None
    is_active: bool | None = None


class RouteQuery(PageQuery):
    """Routes."""

    project_binding_id: UUID | None = None
    deployment_id: UUID | None = None
    slug: Slug | None = None
    is_active: bool | None = None
