"""Asks a hub's application in this process, and makes the things that tests of it need."""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from starlette.testclient import TestClient

from steelyard.hub.app import build_hub
from steelyard.hub.credentials.service import issue
from steelyard.hub.principal import LOCAL
from steelyard.hub.settings import load_settings

if TYPE_CHECKING:
    from httpx2 import Client, Response

    from steelyard.hub.db.database import Database
    from steelyard.hub.principal import Role

CORPUS = "ab" * 32


@dataclass(frozen=True)
class Caller:
    """Somebody with a credential."""

    client: Client
    secret: str

    def get(self, path: str, **query: Any) -> Response:
        return self.client.get(f"/api/v1{path}", params=query, headers=self.headers)

    def post(self, path: str, **body: Any) -> Response:
        return self.client.post(f"/api/v1{path}", json=body, headers=self.headers)

    def send(self, path: str, content: bytes) -> Response:
        return self.client.post(f"/api/v1{path}", content=content, headers=self.headers)

    def make(self, path: str, **body: Any) -> Any:
        """Create a thing, and return it."""
        answer = self.post(path, **body)
        assert answer.status_code == 201, answer.text
        return answer.json()

    @property
    def headers(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.secret}"}


class Asked:
    """One hub's application over a database; `calls_per_second=1` stands for STEELYARD_HUB_CALLS_PER_SECOND=1."""

    def __init__(self, database: Database, **settings: object) -> None:
        self.database = database
        values = {"calls_per_second": 100_000, "failures_per_minute": 100_000, **settings}
        environ = {f"STEELYARD_HUB_{name.upper()}": str(value) for name, value in values.items()}
        self.hub = build_hub(load_settings(environ), database, environ={})
        self.client = TestClient(self.hub.app, raise_server_exceptions=False)

    def caller(self, role: Role) -> Caller:
        """Return a new holder of the role viewer or operator."""
        with self.database.write() as connection:
            now = self.database.now(connection)
            _credential, secret = issue(connection, role=role, name=role, actor=LOCAL, now=now)
        return Caller(self.client, secret.text)

    def holder(self, secret: str) -> Caller:
        """Return who holds *secret*."""
        return Caller(self.client, secret)

    def ask(self, method: str, path: str, **fields: Any) -> Response:
        """Send one request, with no credential of its own."""
        return self.client.request(method, path, **fields)

    def close(self) -> None:
        """End what the hub has started."""
        self.hub.gateway.close()


def caller(database: Database, role: Role) -> Caller:
    """Return a new holder of the role, who asks an application of their own over the database."""
    return Asked(database).caller(role)


@dataclass(frozen=True)
class Catalogue:
    """One of each thing, as the hub answered it; the binding points at nothing, and no route leads anywhere."""

    project: Any
    binding: Any
    client: Any
    artifact: Any
    runtime: Any
    identity: Any
    production: Any
    candidate: Any


def fill(operator: Caller, slug: str = "search") -> Catalogue:
    """Make a project with one of each thing in it, and two deployments."""
    project = operator.make("/projects", slug=slug, name="Search")
    own = {"project_id": project["id"]}
    artifact = operator.make("/artifacts", **own, slug="a", source="s", revision="r", files={"f": "ab" * 32})
    runtime = operator.make("/runtimes", **own, slug="r", kind="vllm", base_url="http://127.0.0.1:9/v1")
    identity = operator.make(
        "/embedding-identities", **own, slug="i", model="m", dimension=4, pooling="mean", is_normalized=True,
        max_length=256, dtype="float32",
    )  # fmt: skip
    binding = operator.make("/project-bindings", **own)
    return Catalogue(
        project=project,
        binding=binding,
        client=operator.make("/service-clients", project_binding_id=binding["id"], slug="c", name="Client"),
        artifact=artifact,
        runtime=runtime,
        identity=identity,
        production=deploy(operator, artifact, runtime, identity, slug="d1", stage="production"),
        candidate=deploy(operator, artifact, runtime, identity, slug="d2", stage="nonproduction"),
    )


def deploy(operator: Caller, artifact: Any, runtime: Any, identity: Any, **fields: Any) -> Any:
    """Make a deployment."""
    parts = {"artifact_id": artifact["id"], "runtime_id": runtime["id"], "embedding_identity_id": identity["id"]}
    return operator.make("/deployments", **parts, **fields)


def case(number: int = 0, **fields: Any) -> dict[str, Any]:
    """Return one case as an import has it, with the last fields instead."""
    return {
        "case_id": str(uuid.UUID(int=number)),
        "query": f"Question {number}?",
        "labels": {"chunk-1": 2, "chunk-2": 1},
        "critical": number % 5 == 0,
        "review": {"reviewer": "Ada", "reviewed_at": "2026-11-02T09:30:00Z"},
        "label_provenance": {"corpus_revision": CORPUS},
        **fields,
    }


def revision(count: int = 2, /, **fields: Any) -> dict[str, Any]:
    """Return an import of so many cases, with the last fields instead."""
    return {"retrieval_settings": {"top_k": 10}, "cases": [case(number) for number in range(count)], **fields}
