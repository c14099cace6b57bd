"""A catalogue with one project, one client and what its routes lead to; every part can be another."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sqlalchemy import select

from steelyard.hub.catalog.service import Catalog
from steelyard.hub.credentials.service import issue, issue_for_client
from steelyard.hub.db.tables import gateway_requests
from steelyard.hub.principal import LOCAL

if TYPE_CHECKING:
    from collections.abc import Mapping
    from uuid import UUID

    from steelyard.hub.catalog import domain
    from steelyard.hub.db.database import Database

CAPABILITY = "rag.embedding@1"
DIMENSION = 4


@dataclass(frozen=True)
class World:
    """What a test needs to know of the catalogue; `stable` leads to *current*, `next` to *candidate*."""

    database: Database
    client: domain.ServiceClient
    binding: domain.ProjectBinding
    runtime: domain.Runtime
    current: domain.Deployment
    candidate: domain.Deployment
    next_route: domain.Route
    credential_id: UUID
    secret: str
    viewer_secret: str

    def rows(self) -> list[Mapping[str, Any]]:
        """Return every row of the log, in order."""
        with self.database.read() as connection:
            found = connection.execute(select(gateway_requests).order_by(gateway_requests.c.id))
            return [dict(row._mapping) for row in found]

    def row(self) -> Mapping[str, Any]:
        """Return the only row of the log."""
        [row] = self.rows()
        return row

    def change(self, action: str, *arguments: Any, **fields: Any) -> Any:
        """Call one method of the catalogue's, and commit."""
        with self.database.write() as connection:
            catalog = Catalog(connection, actor=LOCAL, now=self.database.now(connection))
            return getattr(catalog, action)(*arguments, **fields)


def make_world(
    database: Database,
    *,
    base_url: str,
    runtime: Mapping[str, Any] | None = None,
    identity: Mapping[str, Any] | None = None,
    deployment: Mapping[str, Any] | None = None,
    capabilities: tuple[str, ...] = (CAPABILITY,),
) -> World:
    """Fill *database*; the mappings change fields of the runtime, the identity and both deployments."""
    with database.write() as connection:
        now = database.now(connection)
        catalog = Catalog(connection, actor=LOCAL, now=now)
        project = catalog.create_project({"slug": "shop", "name": "Shop"})
        own: dict[str, Any] = {"project_id": project.id}
        binding = catalog.create_binding(own | {"capability": CAPABILITY, "channel": "stable"})
        client = catalog.create_client({
            "project_binding_id": binding.id, "slug": "search", "name": "Search", "capabilities": list(capabilities),
        })  # fmt: skip
        artifact = catalog.create_artifact(own | {"slug": "a", "source": "s", "revision": "r", "files": {}})
        runs = catalog.create_runtime(own | {
            "slug": "r", "kind": "llama.cpp", "base_url": base_url, "on_overlong": "refuses", "key_variable": None,
            "timeout_s": 10.0, **(runtime or {}),
        })  # fmt: skip
        means = catalog.create_identity(own | {
            "slug": "i", "model": "m", "dimension": DIMENSION, "pooling": "mean", "is_normalized": False,
            "query_prompt": "", "document_prompt": "", "max_length": 256, "dtype": "float32", **(identity or {}),
        })  # fmt: skip
        parts = {
            "artifact_id": artifact.id, "runtime_id": runs.id, "embedding_identity_id": means.id,
            "capability": CAPABILITY, "served_model": "m", "allows_truncation": False, **(deployment or {}),
        }  # fmt: skip
        current = catalog.create_deployment(parts | {"slug": "current", "stage": "production"})
        candidate = catalog.create_deployment(parts | {"slug": "candidate", "stage": "nonproduction"})
        binding = catalog.set_current(binding.id, current.id, expected_version=1)
        route = catalog.create_route({"project_binding_id": binding.id, "slug": "next", "deployment_id": candidate.id})
        credential, secret = issue_for_client(connection, client.id, name="c", actor=LOCAL, now=now)
        _viewer, viewer_secret = issue(connection, role="viewer", name="v", actor=LOCAL, now=now)
    return World(
        database=database, client=client, binding=binding, runtime=runs, current=current, candidate=candidate,
        next_route=route, credential_id=credential.id, secret=secret.text, viewer_secret=viewer_secret.text,
    )  # fmt: skip
