"""A hub with everything that the consumer of docs/howto/comparison-consumer.md needs: a suite, a corpus, two indexes.

The embedding server counts words of four kinds; the candidate's model
takes what boils dry for a password.
"""

from __future__ import annotations

import json
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import httpx2
from tests.gateway.serving import WAIT_S, Served, serving
from tests.gateway.upstreams import Upstream, answer_to
from tests.hub_api import Caller

from steelyard.hall.canonical import sha256_of_json
from steelyard.hall.digests import sha256_of_text
from steelyard.hub.credentials.service import issue
from steelyard.hub.principal import LOCAL

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from tests.gateway.upstreams import Handler

    from steelyard.hub.db.database import Database

PATH = "/selected-model-comparisons"
SETTINGS = {"top_k": 2}
CHUNKS = {
    "delivery": "Track a parcel: every order shows where the parcel is.",
    "kettles": "A kettle switches off when its water boils.",
    "passwords": "Reset a password under Account.",
    "refunds": "A refund reaches your account within five working days.",
}
CORPUS = "".join(json.dumps({"chunk_id": name, "text": text}) + "\n" for name, text in CHUNKS.items())
CASES: dict[str, tuple[str, dict[str, int], bool]] = {
    "0e0a2a52-4c3f-4b9d-8f6a-1c1d2f3a4b5c": ("How do I get a refund?", {"refunds": 3, "passwords": 1}, True),
    "1f67598e-fcad-4de8-ba0c-ab6370a46721": ("Where is my parcel?", {"delivery": 3}, True),
    "5e81cfad-6dbd-4f24-8746-dfe268171966": ("Can the kettle boil dry?", {"kettles": 2}, False),
}
WORDS = ("parcel", "kettle", "password", "refund")


def vector_of(text: str, *, model: str) -> list[float]:
    """Return how often each word of WORDS is in *text*, and a little of everything else."""
    counts = [0.125 + text.lower().count(word) for word in WORDS]
    if model == "minilm-l3":
        counts[WORDS.index("password")] += 2 * text.lower().count("boil dry")
    return counts


def reply(handler: Handler, body: dict[str, Any]) -> None:
    """Answer as an embedding server that has both models."""
    data = [
        {"object": "embedding", "index": index, "embedding": vector_of(text, model=body["model"])}
        for index, text in enumerate(body["input"])
    ]
    handler.json(answer_to({**body, "encoding_format": "float"}, data=data))


@dataclass(frozen=True)
class Shop:
    """A served hub; `stable` leads to minilm-l6, `trial` to minilm-l3."""

    served: Served
    operator: Caller
    consumer: Caller
    things: Mapping[str, Any]

    @property
    def environ(self) -> dict[str, str]:
        """What the page's program reads from its environment."""
        return {"STEELYARD_URL": self.served.url, "STEELYARD_SECRET": self.consumer.secret, "NO_PROXY": "*"}

    def intent(self, **fields: Any) -> dict[str, Any]:
        """Return a creation, with the last fields instead."""
        things = self.things
        return {
            "project_binding_id": things["binding"]["id"],
            "consumer_client_id": things["client"]["id"],
            "suite_revision_id": things["revision"]["id"],
            "current_deployment_id": things["current"]["id"],
            "candidate_deployment_id": things["candidate"]["id"],
            "candidate_route_id": things["route"]["id"],
            "corpus_sha256": sha256_of_text(CORPUS),
            "retrieval_config_sha256": things["revision"]["retrieval_config_sha256"],
            "current_index_ref": "faq-minilm-l6",
            "candidate_index_ref": "faq-minilm-l3",
            "idempotency_key": "faq-l6-l3-2026-12-01",
            **fields,
        }

    def create(self, **fields: Any) -> Any:
        """Create an intent, and return it."""
        return self.operator.make(PATH, **self.intent(**fields))

    def status_of(self, comparison: Any) -> tuple[str, str | None]:
        """Return the state that a comparison is in, and its error code."""
        found = self.operator.get(f"{PATH}/{comparison['id']}").json()
        return found["status"], found["error_code"]

    def embed(self, texts: list[str], *, route: str = "stable", input_type: str = "query") -> httpx2.Response:
        """Embed through the gateway, as the consumer."""
        return self.served.post(
            {"model": route, "input": texts if len(texts) > 1 else texts[0], "input_type": input_type},
            secret=self.consumer.secret,
        )

    def write_files(self, folder: Path) -> None:
        """Write the corpus and both indexes, as an indexer does that reads the catalogue."""
        (folder / "corpus.jsonl").write_text(CORPUS, encoding="utf-8")
        (folder / "indexes").mkdir()
        for ref, route, artifact in (("faq-minilm-l6", "stable", "l6"), ("faq-minilm-l3", "trial", "l3")):
            found = self.embed(list(CHUNKS.values()), route=route, input_type="document").json()["data"]
            index = {
                "made_with": {
                    "corpus_sha256": sha256_of_text(CORPUS),
                    "index_ref": ref,
                    "artifact": own(self.things[artifact]),
                    "embedding_identity": own(self.things[f"{artifact}-identity"]),
                },
                "vectors": {name: item["embedding"] for name, item in zip(CHUNKS, found, strict=True)},
            }
            path = folder / "indexes" / f"{sha256_of_json(ref)}.json"
            path.write_text(json.dumps(index), encoding="utf-8")


def own(thing: Mapping[str, Any]) -> dict[str, Any]:
    """Return what the pins have of a thing that the catalogue answered."""
    return {name: value for name, value in thing.items() if name not in ("project_id", "created_at")}


@dataclass(frozen=True)
class _Held:
    """What `serving` asks of a world."""

    database: Database
    secret: str = ""


@contextmanager
def shop(database: Database, upstream: Upstream) -> Iterator[Shop]:
    """Serve a hub over a fresh *database* before *upstream*, and fill it."""
    upstream.reply = reply
    with database.write() as connection:
        _credential, secret = issue(connection, role="operator", name="o", actor=LOCAL, now=database.now(connection))
    with (
        serving(_Held(database)) as served,  # type: ignore[arg-type]  # It asks for these two alone.
        httpx2.Client(base_url=served.url, trust_env=False, timeout=WAIT_S) as client,
    ):
        operator = Caller(client, secret.text)
        things = fill(operator, base_url=upstream.url)
        issued = operator.make(f"/service-clients/{things['client']['id']}/credentials", name="first")
        yield Shop(served, operator, Caller(client, issued["secret"]), things)


def fill(operator: Caller, *, base_url: str) -> dict[str, Any]:
    """Make the catalogue and the suite."""
    project = operator.make("/projects", slug="search", name="Product search")
    own_project = {"project_id": project["id"]}
    binding = operator.make("/project-bindings", **own_project)
    runtime = operator.make("/runtimes", **own_project, slug="embed", kind="vllm", base_url=base_url)
    things: dict[str, Any] = {}
    for short, stage in (("l6", "production"), ("l3", "nonproduction")):
        model = f"minilm-{short}"
        things[short] = operator.make(
            "/artifacts", **own_project, slug=model, source=f"sentence-transformers/{model}", revision="v2",
            files={"model.onnx": sha256_of_text(model)},
        )  # fmt: skip
        things[f"{short}-identity"] = operator.make(
            "/embedding-identities", **own_project, slug=model, model=model, dimension=len(WORDS), pooling="mean",
            is_normalized=False, max_length=256, dtype="float32",
        )  # fmt: skip
        things[short + "-deployment"] = operator.make(
            "/deployments", artifact_id=things[short]["id"], runtime_id=runtime["id"],
            embedding_identity_id=things[f"{short}-identity"]["id"], slug=f"{model}-a", stage=stage,
        )  # fmt: skip
    current, candidate = things["l6-deployment"], things["l3-deployment"]
    operator.post(
        f"/project-bindings/{binding['id']}/current-deployment", deployment_id=current["id"], expected_version=1
    )
    suite = operator.make("/suites", **own_project, slug="faq", name="Questions")
    return things | {
        "binding": binding,
        "current": current,
        "candidate": candidate,
        "client": operator.make("/service-clients", project_binding_id=binding["id"], slug="indexer", name="Indexer"),
        "other": operator.make("/service-clients", project_binding_id=binding["id"], slug="other", name="Other"),
        "route": operator.make(
            "/routes", project_binding_id=binding["id"], slug="trial", deployment_id=candidate["id"]
        ),
        "revision": operator.make(
            f"/suites/{suite['id']}/revisions", retrieval_settings=SETTINGS, cases=list(map(case, CASES))
        ),
    }


def case(case_id: str) -> dict[str, Any]:
    """Return one case as an import has it."""
    query, labels, is_critical = CASES[case_id]
    return {
        "case_id": case_id,
        "query": query,
        "labels": labels,
        "critical": is_critical,
        "review": {"reviewer": "Ada", "reviewed_at": "2026-11-02T09:30:00Z"},
        "label_provenance": {"corpus_revision": sha256_of_text(CORPUS)},
    }
