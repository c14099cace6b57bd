"""Drives one embedding server without sockets; whole requests through its client, odd ones through `asgi.exchange`."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from starlette.testclient import TestClient
from tests.api.asgi import TOKEN

from steelyard.embed.app import build_server
from steelyard.embed.runtimes.fake import FakeRuntime
from steelyard.embed.settings import load_settings

if TYPE_CHECKING:
    from steelyard.embed.app import EmbeddingServer
    from steelyard.embed.settings import Settings

BODY = {"model": "fake", "input": "a text"}


def settings_of(**values: object) -> Settings:
    """Return settings for the fake runtime; `max_queue=1` stands for STEELYARD_EMBED_MAX_QUEUE=1."""
    environ = {"STEELYARD_EMBED_API_TOKEN": TOKEN, "STEELYARD_EMBED_MODEL": "fake"}
    return load_settings(environ | {f"STEELYARD_EMBED_{name.upper()}": str(value) for name, value in values.items()})


@dataclass(frozen=True)
class Served:
    """One server in this process."""

    server: EmbeddingServer
    runtime: FakeRuntime
    poisoned: threading.Event
    client: TestClient = field(init=False)

    def __post_init__(self) -> None:
        client = TestClient(self.server.app, headers={"Authorization": f"Bearer {TOKEN}"})
        object.__setattr__(self, "client", client)

    def embed(self, **changes: object):
        return self.client.post("/v1/embeddings", json={**BODY, **changes})


def serve(runtime: FakeRuntime | None = None, **settings: object) -> Served:
    """Return a server; whoever calls closes it."""
    poisoned = threading.Event()
    runtime = runtime or FakeRuntime()
    server = build_server(settings_of(**settings), runtime, on_poisoned=poisoned.set)
    return Served(server=server, runtime=runtime, poisoned=poisoned)
