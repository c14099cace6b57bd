"""Two embedding models behind one hub: the demo's part that routes traffic, with the official openai client."""

from __future__ import annotations

import secrets
import shutil
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from examples.servers import STEELYARD, own_environment, run, running
from openai import OpenAI

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

BAR_WIDTH = 40
CATALOGUE = Path(__file__).with_name("hub.toml")
CASES = CATALOGUE.with_name("faq.jsonl")
# By the address that the catalogue file has for its server.
MODELS = {"http://127.0.0.1:8472": "all-minilm-l6-v2-int8", "http://127.0.0.1:8473": "paraphrase-minilm-l3-v2"}
CLIENT = "indexer"
ROUTES = ("stable", "minilm-l3-trial")
QUERY = "Where is my parcel?"
# The labels of the suite `faq` are about these: delivery, refunds, kettles.
DOCUMENTS = (
    "Track a delivery: every order page shows where the package is.",
    "Refunds reach your bank account within five working days.",
    "Our kettles switch themselves off when the water boils.",
)


@dataclass(frozen=True)
class Hub:
    """A running hub with a catalogue, the operator's environment for its commands, and a service client's secret."""

    url: str
    operator: Mapping[str, str]
    secret: str


@contextmanager
def weighing(folder: Path) -> Iterator[Hub]:
    """Run two embedding servers and, over a new database in *folder*, a hub, until the end of the block."""
    token = secrets.token_hex(32)
    with ExitStack() as servers:
        places = {}
        for address, model in MODELS.items():
            command = ["embed", "serve", "--model", model, "--port", "0"]
            environment = own_environment(STEELYARD_EMBED_API_TOKEN=token)
            places[address] = servers.enter_context(
                running(f"the embedding server on {model}", command, environment=environment)
            )
        environment = own_environment(
            STEELYARD_HUB_DATABASE=f"sqlite:///{_emptied(folder) / 'hub.db'}", STEELYARD_UPSTREAM_EMBED=token
        )
        credential = run("hub", "init", environment=environment).strip()
        url = servers.enter_context(running("the hub", ["hub", "serve", "--port", "0"], environment=environment))
        operator = own_environment(STEELYARD_URL=url, STEELYARD_CREDENTIAL=credential)
        print(run("hub", "apply", "-f", str(_catalogue(places, folder)), "--yes", environment=operator))
        secret = run("hub", "clients", "issue-secret", CLIENT, "--name", "demo", environment=operator).strip()
        yield Hub(url=url, operator=operator, secret=secret)


def _emptied(folder: Path) -> Path:
    """Return *folder* without the database of an earlier demo, whose servers had other addresses."""
    folder.mkdir(parents=True, exist_ok=True)
    for path in folder.glob("hub.*"):
        path.unlink()
    return folder.absolute()


def _catalogue(places: Mapping[str, str], folder: Path) -> Path:
    """Write the sample catalogue, with the servers' real addresses and the cases beside it, and return its path."""
    text = CATALOGUE.read_text(encoding="utf-8")
    for written, real in places.items():
        text = text.replace(written, real)
    path = folder / "hub.toml"
    path.write_text(text, encoding="utf-8")
    shutil.copy(CASES, folder / CASES.name)
    return path


def show_embeddings(hub: Hub) -> None:
    """Embed a question and three documents through both routes, and print how near they are, and what was logged."""
    client = OpenAI(base_url=f"{hub.url}/v1", api_key=hub.secret)
    for route in ROUTES:
        print(f"Through the route `{route}` (openai client, POST /v1/embeddings)")
        print(f"   {QUERY}")
        query = _vectors(client, route, [QUERY], input_type="query")[0]
        for document, vector in zip(
            DOCUMENTS, _vectors(client, route, list(DOCUMENTS), input_type="document"), strict=True
        ):
            similarity = sum(a * b for a, b in zip(query, vector, strict=True))
            print(f"     {similarity:6.3f} {'█' * round(max(0.0, similarity) * BAR_WIDTH):{BAR_WIDTH}} {document}")
        print()
    print("The hub logged each call before it was made, and never the texts:")
    print(run("hub", "requests", "list", environment=hub.operator))


def _vectors(client: OpenAI, route: str, texts: list[str], *, input_type: str) -> list[list[float]]:
    answer = client.embeddings.create(model=route, input=texts, extra_body={"input_type": input_type})
    return [item.embedding for item in answer.data]


def show_how_to_embed(hub: Hub) -> None:
    """Print what to try from another terminal."""
    print("Embed, and look around, from another terminal:\n")
    print(f"curl -s {hub.url}/v1/embeddings -H 'Authorization: Bearer {hub.secret}' \\")
    print(f'    -d \'{{"model": "stable", "input": "{QUERY}"}}\'')
    print(f"export STEELYARD_URL={hub.url} STEELYARD_CREDENTIAL={hub.operator['STEELYARD_CREDENTIAL']}")
    print(f"{STEELYARD} hub deployments list\n{STEELYARD} hub audit list\n")
