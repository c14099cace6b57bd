"""One small catalogue, as the OpenAPI document shows it: each thing as the hub would answer it."""

from __future__ import annotations

from datetime import UTC, datetime
from uuid import UUID

from steelyard.hub.catalog import domain

_AT = datetime(2026, 12, 1, 9, 0, tzinfo=UTC)


def _id(number: int) -> UUID:
    return UUID(int=(0x5B1F0F0E8A554C0E << 64) + (0x9A2F << 48) + number)


PROJECT = domain.Project(id=_id(1), slug="search", name="Product search", created_at=_AT)
ARTIFACT = domain.Artifact(
    id=_id(2),
    project_id=PROJECT.id,
    slug="all-minilm-l6-v2-int8",
    source="sentence-transformers/all-MiniLM-L6-v2",
    revision="int8 ONNX",
    files={"model.onnx": "8199be6f699a395f99f89df973f9dc5285fbcfcdb2ae1a4e1201dab014f3d2a6"},
    created_at=_AT,
)
RUNTIME = domain.Runtime(
    id=_id(3),
    project_id=PROJECT.id,
    slug="embed-a",
    kind="steelyard",
    base_url="http://127.0.0.1:8472/v1",
    on_overlong="reports",
    key_variable=None,
    timeout_s=30.0,
    created_at=_AT,
)
IDENTITY = domain.EmbeddingIdentity(
    id=_id(4),
    project_id=PROJECT.id,
    slug="minilm-l6",
    model="all-minilm-l6-v2-int8",
    dimension=384,
    pooling="mean",
    is_normalized=True,
    query_prompt="",
    document_prompt="",
    max_length=256,
    dtype="int8",
    created_at=_AT,
)
DEPLOYMENT = domain.Deployment(
    id=_id(5),
    project_id=PROJECT.id,
    slug="minilm-l6-a",
    capability="rag.embedding@1",
    artifact_id=ARTIFACT.id,
    runtime_id=RUNTIME.id,
    embedding_identity_id=IDENTITY.id,
    served_model=IDENTITY.model,
    stage="nonproduction",
    allows_truncation=False,
    is_active=True,
    version=1,
    created_at=_AT,
)
BINDING = domain.ProjectBinding(
    id=_id(6),
    project_id=PROJECT.id,
    capability="rag.embedding@1",
    channel="stable",
    is_active=True,
    current_deployment_id=None,
    version=1,
    created_at=_AT,
)
CLIENT = domain.ServiceClient(
    id=_id(7),
    project_id=PROJECT.id,
    project_binding_id=BINDING.id,
    slug="indexer",
    name="Nightly indexer",
    capabilities=["rag.embedding@1"],
    is_active=True,
    version=1,
    created_at=_AT,
)
ROUTE = domain.Route(
    id=_id(8),
    project_binding_id=BINDING.id,
    slug="minilm-l6-trial",
    kind="experiment",
    deployment_id=DEPLOYMENT.id,
    is_active=True,
    version=1,
    created_at=_AT,
)
THINGS: tuple[domain.Thing, ...] = (PROJECT, BINDING, CLIENT, ARTIFACT, RUNTIME, IDENTITY, DEPLOYMENT, ROUTE)
