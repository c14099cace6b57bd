"""Many clients of one hub at once, over real connections: some embed, some change the catalogue.

Each notes an answer only when it has read it to the end. A connection that breaks ends its client.
"""

from __future__ import annotations

import json
import random
import threading
import uuid
from contextlib import contextmanager
from dataclasses import dataclass
from http.client import HTTPConnection, HTTPException
from typing import TYPE_CHECKING, Any

from tests.durability.ledger import Changed, Embedded, Ledger
from tests.gateway.upstreams import answer_to
from tests.gateway.world import CAPABILITY, World, make_world

from steelyard.hub.credentials.service import issue
from steelyard.hub.db.database import Database
from steelyard.hub.principal import LOCAL

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.gateway.upstreams import Handler, Upstream

EMBEDDERS = 5
TIMEOUT_S = 30.0
_GOES_WRONG = "the embedding server fails on this"


@dataclass(frozen=True)
class Scene:
    """A database with a catalogue, the two secrets that the traffic needs, and what is known of it outside."""

    url: str
    world: World
    operator: str
    ledger: Ledger


def make_scene(url: str, upstream: Upstream) -> Scene:
    """Fill the database at *url*, and let *upstream* note what it is asked."""
    database = Database(url)
    world = make_world(database, base_url=upstream.url)
    with database.write() as connection:
        _credential, secret = issue(connection, role="operator", name="o", actor=LOCAL, now=database.now(connection))
    database.close()
    ledger = Ledger()

    def reply(handler: Handler, body: dict[str, Any]) -> None:
        request_id = str(handler.headers["X-Request-ID"])
        ledger.asked[request_id] = body["input"]
        if _GOES_WRONG in body["input"]:
            handler.json({"error": "no"}, status=500)
            return
        ledger.replied.add(request_id)
        handler.json(answer_to(body))

    upstream.reply = reply
    return Scene(url=url, world=world, operator=secret.text, ledger=ledger)


@contextmanager
def traffic(scene: Scene, *ports: int, rng: random.Random, goes_on: bool = False) -> Iterator[None]:
    """Send requests to the hubs at *ports* until the block ends, and wait for the last answers.

    Where it *goes_on*, a refusal of the database's ends no client.
    """
    is_over = threading.Event()
    kinds: list[Callable[[_Client], None]] = [*[_embed] * EMBEDDERS, _make, _switch, _switch, _import, _apply]
    clients = [
        (kind, _Client(scene, port, random.Random(rng.random()), is_over, goes_on=goes_on))
        for port in ports
        for kind in kinds
    ]
    threads = [threading.Thread(target=client.run, args=(kind,)) for kind, client in clients]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        is_over.set()
        for thread in threads:
            thread.join(2 * TIMEOUT_S)
    assert not scene.ledger.faults, scene.ledger.faults
    assert not any(thread.is_alive() for thread in threads)


class _Refused(Exception):
    """The hub could not reach its database."""


class _Client:
    """One connection, used by one thread."""

    def __init__(self, scene: Scene, port: int, rng: random.Random, is_over: threading.Event, *, goes_on: bool) -> None:
        self.scene = scene
        self.rng = rng
        self.is_over = is_over
        self._goes_on = goes_on
        self._connection = HTTPConnection("127.0.0.1", port, timeout=TIMEOUT_S)

    def run(self, kind: Callable[[_Client], None]) -> None:
        """Do one kind of thing until it is over, or the hub is gone."""
        try:
            while not self.is_over.is_set():
                try:
                    kind(self)
                except _Refused:
                    if not self._goes_on:
                        raise
        except (OSError, HTTPException):  # The hub is gone.
            pass
        except Exception as error:
            self.scene.ledger.faults.append(repr(error))
        finally:
            self._connection.close()
            self.scene.ledger.tell()

    def embed(self, texts: list[str], *, model: str) -> None:
        """Embed, and note the answer."""
        body = {"model": model, "input": texts}
        status, request_id, content = self._ask("POST", "/v1/embeddings", body, secret=self.scene.world.secret)
        tokens = content["usage"]["prompt_tokens"] if status == 200 else None
        code = content["error"]["code"] if status != 200 else None
        assert status in (200, 502), content
        self.scene.ledger.embedded.append(
            Embedded(request_id=request_id, texts=texts, status=status, tokens=tokens, code=code)
        )
        self.scene.ledger.tell()

    def change(self, path: str, **body: Any) -> Changed:
        """Change the catalogue, and note the answer."""
        status, request_id, content = self._ask("POST", f"/api/v1{path}", body, secret=self.scene.operator)
        assert status in (200, 201, 409), content
        changed = Changed(request_id=request_id, path=path, status=status, content=content)
        self.scene.ledger.changed.append(changed)
        self.scene.ledger.tell()
        return changed

    def make(self, path: str, **body: Any) -> Any:
        """Make a thing and return its id."""
        content = self.change(path, **body).content
        return content["id"]

    def get(self, path: str) -> Any:
        """Read a thing of the catalogue's."""
        status, _request_id, content = self._ask("GET", f"/api/v1{path}", None, secret=self.scene.operator)
        assert status == 200, content
        return content

    def _ask(self, method: str, path: str, body: object, *, secret: str) -> tuple[int, str, Any]:
        headers = {"Authorization": f"Bearer {secret}", "Content-Type": "application/json"}
        self._connection.request(method, path, None if body is None else json.dumps(body).encode(), headers)
        response = self._connection.getresponse()
        content = json.loads(response.read())
        request_id = str(response.headers["x-request-id"])
        if response.status == 503:
            self.scene.ledger.refused.append(request_id)
            self.scene.ledger.tell()
            raise _Refused(content)
        return response.status, request_id, content


def _embed(client: _Client) -> None:
    texts = [f"{uuid.uuid4()}" for _ in range(client.rng.randint(1, 3))]
    if client.rng.random() < 0.1:
        texts.append(_GOES_WRONG)
    client.embed(texts, model=client.rng.choice(["stable", "next"]))


def _make(client: _Client) -> None:
    """Make a whole project, as an operator would, with its pointer and a client's secret."""
    own = {"project_id": client.make("/projects", slug=_slug(), name="P")}
    binding = client.make("/project-bindings", **own)
    parts = {
        "artifact_id": client.make("/artifacts", **own, slug="a", source="s", revision="r", files={"f": "0" * 64}),
        "runtime_id": client.make("/runtimes", **own, slug="r", kind="steelyard", base_url="http://127.0.0.1:9/v1"),
        "embedding_identity_id": client.make(
            "/embedding-identities", **own, slug="i", model="m", dimension=4, pooling="mean", is_normalized=True,
            max_length=256, dtype="int8",
        ),
    }  # fmt: skip
    deployment = client.make("/deployments", **parts, slug="d", stage="production")
    candidate = client.make("/deployments", **parts, slug="e", stage="nonproduction")
    client.change(f"/project-bindings/{binding}/current-deployment", deployment_id=deployment, expected_version=1)
    client.make("/routes", project_binding_id=binding, slug="next", deployment_id=candidate)
    caller = client.make("/service-clients", project_binding_id=binding, slug="c", name="C", capabilities=[CAPABILITY])
    issued = client.change(f"/service-clients/{caller}/credentials", name="first").content
    client.change(f"/credentials/{issued['credential']['id']}/revoke")


def _switch(client: _Client) -> None:
    """Move the pointer of the binding that the embedding traffic goes through; two clients race."""
    binding = client.get(f"/project-bindings/{client.scene.world.binding.id}")
    found = client.get(f"/deployments?project_id={binding['project_id']}&stage=production")["items"]
    others = [one["id"] for one in found if one["id"] != binding["current_deployment_id"]]
    if not others:
        fields = {name: found[0][name] for name in ("artifact_id", "runtime_id", "embedding_identity_id")}
        others = [client.make("/deployments", **fields, slug=_slug(), stage="production", served_model="m")]
    client.change(
        f"/project-bindings/{binding['id']}/current-deployment",
        deployment_id=client.rng.choice(others),
        expected_version=binding["version"],
    )


def _import(client: _Client) -> None:
    suite = client.make("/suites", project_id=str(client.scene.world.binding.project_id), slug=_slug(), name="S")
    for count in (1, client.rng.randint(2, 100)):
        client.change(
            f"/suites/{suite}/revisions", retrieval_settings={"top_k": 10}, cases=[_case() for _ in range(count)]
        )


def _apply(client: _Client) -> None:
    """Make a whole project with one document."""
    parts = {"artifact": "a", "runtime": "r", "identity": "i"}
    project = {
        "name": "P",
        "artifacts": {"a": {"source": "s", "revision": "r", "files": {"f": "0" * 64}}},
        "runtimes": {"r": {"kind": "steelyard", "base_url": "http://127.0.0.1:9/v1"}},
        "identities": {"i": {"model": "m", "dimension": 4, "pooling": "mean", "is_normalized": True,
                             "max_length": 256, "dtype": "int8"}},
        "deployments": {"d": {**parts, "stage": "production"}, "e": {**parts, "stage": "nonproduction"}},
        "bindings": {CAPABILITY: {"current_deployment": "d", "routes": {"next": {"deployment": "e"}},
                                  "clients": {"c": {"name": "C"}}}},
        "suites": {"s": {"name": "S"}},
    }  # fmt: skip
    client.change("/apply", document={"projects": {_slug(): project}}, dry_run=False)


def _case() -> dict[str, Any]:
    return {
        "case_id": str(uuid.uuid4()),
        "query": "Where is my parcel?",
        "labels": {"chunk-1": 2},
        "critical": False,
        "review": {"reviewer": "Ada", "reviewed_at": "2026-11-02T09:30:00Z"},
        "label_provenance": {"corpus_revision": "ab" * 32},
    }


def _slug() -> str:
    return f"s-{uuid.uuid4()}"
