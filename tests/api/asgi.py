"""Drives one decision server without sockets: whole requests through `Client`, odd ones event by event.

The engines are the project's own fake with one thing changed, so that a test can count calls or make one fail.
"""

from __future__ import annotations

import asyncio
import json
import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from starlette.testclient import TestClient

from steelyard.decide.app import build_server
from steelyard.decide.engines.fake import FakeEngine, FakePrefix
from steelyard.decide.settings import load_settings

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from starlette.types import ASGIApp, Message

    from steelyard.decide.app import DecisionServer
    from steelyard.decide.domain.ports import Suffix, SuffixLogits
    from steelyard.decide.settings import Settings

TOKEN = "canary-token-0123456789-abcdefghij"
BEARER = (b"authorization", b"Bearer " + TOKEN.encode())
OPTIONS = [
    {"id": "billing", "description": "Billing: invoices and refunds"},
    {"id": "support", "description": "Technical support"},
    {"id": "sales", "description": "Sales"},
]
ROW = {
    "id": "ticket-1",
    "state": "The invoice was charged twice.",
    "question": "Which team should answer?",
    "options": OPTIONS,
}
DECISION = {key: value for key, value in ROW.items() if key != "state"}
SHARED = {"state": ROW["state"], "decisions": [DECISION]}


def settings_of(**values: object) -> Settings:
    """Return settings for the fake model; `max_queue=1` stands for SEMIF_MAX_QUEUE=1."""
    environ = {"SEMIF_API_TOKEN": TOKEN, "SEMIF_MODEL": "fake"}
    return load_settings(environ | {f"SEMIF_{name.upper()}": str(value) for name, value in values.items()})


class CountingEngine(FakeEngine):
    """The fake engine, which notes every call."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[str] = []
        self.tidied: list[bool] = []
        self.is_closed = False

    def forward(self, tokens: Sequence[int], slots: Sequence[int]) -> list[float]:
        self.calls.append("forward")
        return super().forward(tokens, slots)

    def prefill(self, tokens: Sequence[int]) -> FakePrefix:
        self.calls.append("prefill")
        return super().prefill(tokens)

    def score_suffixes(self, prefix: list[int], suffixes: Sequence[Suffix]) -> SuffixLogits:
        self.calls.append(f"suffixes {len(suffixes)}")
        return super().score_suffixes(prefix, suffixes)

    def tidy(self, *, failed: bool) -> None:
        self.tidied.append(failed)

    def close(self) -> None:
        self.is_closed = True


@dataclass(frozen=True)
class Served:
    """One server in this process."""

    server: DecisionServer
    engine: FakeEngine
    poisoned: threading.Event
    client: TestClient = field(init=False)

    def __post_init__(self) -> None:
        client = TestClient(self.server.app, headers={"Authorization": f"Bearer {TOKEN}"})
        object.__setattr__(self, "client", client)

    def post(self, path: str, body: object, **headers: str):
        """Post *body* as JSON as Python writes it, NaN included."""
        return self.client.post(path, content=json.dumps(body), headers=headers)

    def decide(self, **changes: object):
        return self.post("/decide", {**ROW, **changes})

    def shared(self, *decisions: dict, **fields: object):
        return self.post("/decide/shared", {"state": ROW["state"], "decisions": list(decisions), **fields})


def serve(engine: FakeEngine | None = None, *, settings: Settings | None = None) -> Served:
    """Return a server; whoever calls closes its thread."""
    poisoned = threading.Event()
    engine = engine or FakeEngine()
    server = build_server(settings or settings_of(), engine, on_poisoned=poisoned.set)
    return Served(server=server, engine=engine, poisoned=poisoned)


@dataclass
class Exchange:
    """What one request led to: the answer, and how many body events had been read when it began."""

    status: int = 0
    headers: list[tuple[bytes, bytes]] = field(default_factory=list)
    body: bytes = b""
    read_before_answer: int = 0
    read: int = 0

    @property
    def error(self) -> dict:
        """The envelope's inside; fails where the body is no envelope."""
        content: dict[str, dict] = json.loads(self.body)
        assert list(content) == ["error"]
        assert list(content["error"]) == ["code", "message"]
        return content["error"]

    def header(self, name: bytes) -> bytes | None:
        return dict(self.headers).get(name)


def exchange(
    app: ASGIApp,
    path: str = "/decide",
    *,
    method: str = "POST",
    headers: Iterable[tuple[bytes, bytes]] = (BEARER,),
    chunks: Sequence[bytes] = (b"",),
    ends: bool = True,
    hangs_up: bool = False,
    client: tuple[str, int] = ("127.0.0.1", 1),
) -> Exchange:
    """Run one request whose body comes as *chunks*; without *ends* the last one is not the end of the body."""
    scope = {**_scope(path, method, headers), "client": client}
    return asyncio.run(_exchange(app, scope, chunks, ends=ends, hangs_up=hangs_up))


def _scope(path: str, method: str, headers: Iterable[tuple[bytes, bytes]]) -> dict:
    path, _, query = path.partition("?")
    return {
        "type": "http",
        "asgi": {"version": "3.0", "spec_version": "2.3"},
        "http_version": "1.1",
        "method": method,
        "scheme": "http",
        "path": path,
        "raw_path": path.encode(),
        "root_path": "",
        "query_string": query.encode(),
        "headers": list(headers),
        "client": ("127.0.0.1", 1),
        "server": ("127.0.0.1", 2),
    }


async def _exchange(app: ASGIApp, scope: dict, chunks: Sequence[bytes], *, ends: bool, hangs_up: bool) -> Exchange:
    seen = Exchange()

    async def receive() -> Message:
        if seen.read < len(chunks):
            seen.read += 1
            more = seen.read < len(chunks) or not ends
            return {"type": "http.request", "body": chunks[seen.read - 1], "more_body": more}
        if not hangs_up:
            await asyncio.Event().wait()  # The client waits for its answer; the loop's end cancels this.
        return {"type": "http.disconnect"}

    async def send(message: Message) -> None:
        if message["type"] == "http.response.start":
            assert seen.status == 0, "one request has one answer"
            seen.status, seen.headers = message["status"], list(message["headers"])
            seen.read_before_answer = seen.read
        else:
            seen.body += message.get("body", b"")

    await app(scope, receive, send)
    return seen
