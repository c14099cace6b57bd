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
    from httpx2 import Response

    from steelyard.hub.db.database import Database
    from steelyard.hub.principal import Role

CORPUS = "ab" * 32


@dataclass(frozen=True)
class Caller:
    """Somebody with a credential."""

    client: TestClient
    secret: str

    def get(self, path: str, **query: Any) -> Response:
        return self.client.get(f"/api/v1{path}", params=query, headers=self._headers)

    def post(self, path: str, **body: Any) -> Response:
        return self.client.post(f"/api/v1{path}", json=body, headers=self._headers)

    def send(self, path: str, content: bytes) -> Response:
        return self.client.post(f"/api/v1{path}", content=content, headers=self._headers)

    def make(self, path: str, **body: Any) -> Any:
        """Create a thing, and return it."""
        answer = self.post(path, **body)
        assert answer.status_code == 201, answer.text
        return answer.json()

    @property
    def _headers(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.secret}"}


def caller(database: Database, role: Role) -> Caller:
    """Return a new holder of the role, who asks an application of their own over the database."""
    with database.write() as connection:
        _credential, secret = issue(connection, role=role, name=role, actor=LOCAL, now=database.now(connection))
    settings = load_settings({"STEELYARD_HUB_CALLS_PER_SECOND": "100000"})
    return Caller(TestClient(build_hub(settings, database, environ={}).app, raise_server_exceptions=False), secret.text)


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
