"""What the embedding gateway costs over calling the embedding server directly, as ratios in one run.

    direct       `steelyard embed serve` with its fake runtime, asked without the hub
    grouped      the same through the hub, each request's row committed before the call and after it, in groups
    ungrouped    the same with one commit for each row
    stepping     direct and grouped again, but the embedding server takes 20 ms, as a real model would

Each with 1, 8 and 64 clients, which ask for one text at a time in base64, on SQLite and on PostgreSQL. Load, hub and
embedding server are processes of their own on this machine, so with more clients than cores the load's own work is part
of every figure, the direct ones too.

Prints a Markdown report. Leave the machine alone meanwhile.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import re
import secrets
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import deque
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click
import httpx2
from benchmarks.latencies import Figures
from tests.postgres import Cluster

from steelyard.hub.catalog.service import Catalog
from steelyard.hub.credentials.service import issue_for_client
from steelyard.hub.db import migrate
from steelyard.hub.db.database import Database
from steelyard.hub.principal import LOCAL

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

CLIENTS = (1, 8, 64)
CAPABILITY = "rag.embedding@1"
STEELYARD = str(Path(sys.executable).with_name("steelyard"))
TEXT = "Where is my parcel, and why was it handed to a neighbour?"
WARM_UP = 50


@dataclass(frozen=True)
class Endpoint:
    """Where the load goes."""

    url: str
    key: str
    model: str


def main() -> None:
    """Measure everything, and print the report."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--requests", type=int, default=3000, help="requests in each measurement")
    arguments = parser.parse_args()
    with ExitStack() as stack:
        cluster = Cluster()
        stack.callback(cluster.stop)
        folder = stack.enter_context(tempfile.TemporaryDirectory())
        stores = {"SQLite": f"sqlite:///{folder}/hub.db", "PostgreSQL": cluster.create("hub")}
        print(report(measure(stores, count=arguments.requests)))


def measure(stores: Mapping[str, str], *, count: int) -> dict[tuple[str, int], Figures]:
    """Return the figures of each case's name and number of clients; a case's servers run only meanwhile."""
    figures: dict[tuple[str, int], Figures] = {}
    cases: list[tuple[str, str | None, bool, float]] = [("direct", None, True, 0.0)]
    for name, url in stores.items():
        cases += [(f"{name}, grouped", url, True, 0.0), (f"{name}, ungrouped", url, False, 0.0)]
    cases += [("direct, 20 ms", None, True, 0.02)]
    cases += [(f"{name}, grouped, 20 ms", url, True, 0.02) for name, url in stores.items()]
    with click.progressbar(cases, label="Gateway", file=sys.stderr, item_show_func=lambda c: c[0] if c else "") as bar:
        for name, store, is_grouped, fake_s in bar:
            with ExitStack() as stack:
                endpoint = stack.enter_context(embedding_server(fake_s))
                if store is not None:
                    endpoint = stack.enter_context(hub(store, endpoint, is_grouped=is_grouped))
                for clients in CLIENTS:
                    figures[name, clients] = asyncio.run(load(endpoint, clients=clients, count=count))
    return figures


async def load(endpoint: Endpoint, *, clients: int, count: int) -> Figures:
    """Ask for *count* embeddings from *clients* connections at once."""
    body = {"model": endpoint.model, "input": TEXT, "encoding_format": "base64"}
    latencies: list[float] = []
    left = iter(range(count + WARM_UP))

    async def ask(client: httpx2.AsyncClient) -> None:
        for _ in left:
            began = time.perf_counter()
            answer = await client.post("/embeddings", json=body)
            latencies.append(time.perf_counter() - began)
            answer.raise_for_status()

    limits = httpx2.Limits(max_connections=clients, max_keepalive_connections=clients)
    headers = {"Authorization": f"Bearer {endpoint.key}"}
    async with httpx2.AsyncClient(
        base_url=endpoint.url, headers=headers, limits=limits, timeout=60, trust_env=False
    ) as client:
        for _ in zip(range(WARM_UP), left, strict=False):
            (await client.post("/embeddings", json=body)).raise_for_status()
        began = time.perf_counter()
        await asyncio.gather(*(ask(client) for _ in range(clients)))
        took_s = time.perf_counter() - began
    return Figures.of(latencies, took_s=took_s)


@contextmanager
def embedding_server(fake_s: float) -> Iterator[Endpoint]:
    """Serve the fake runtime."""
    key = secrets.token_hex(32)
    settings = {"API_TOKEN": key, "MODEL": "fake", "BIND": "127.0.0.1:0", "MAX_QUEUE": "256", "FAKE_SECONDS": fake_s}
    environ = {f"STEELYARD_EMBED_{name}": str(value) for name, value in settings.items()}
    with serving("embed", environ) as url:
        yield Endpoint(url=f"{url}/v1", key=key, model="fake")


@contextmanager
def hub(database_url: str, upstream: Endpoint, *, is_grouped: bool) -> Iterator[Endpoint]:
    """Serve a hub whose stable route leads to *upstream*."""
    secret = fill(database_url, upstream)
    settings = {"DATABASE": database_url, "BIND": "127.0.0.1:0", "CALLS_PER_SECOND": "1000000",
                "GROUP_COMMIT": "on" if is_grouped else "off"}  # fmt: skip
    environ = {f"STEELYARD_HUB_{name}": value for name, value in settings.items()}
    with serving("hub", environ | {"STEELYARD_UPSTREAM_BENCH": upstream.key}) as url:
        yield Endpoint(url=f"{url}/v1", key=secret, model="stable")


def fill(database_url: str, upstream: Endpoint) -> str:
    """Add a project whose stable route leads to *upstream*, and return its client's secret."""
    database = Database(database_url)
    migrate.upgrade(database)
    headers = {"Authorization": f"Bearer {upstream.key}"}
    identity = httpx2.get(upstream.url.removesuffix("/v1") + "/health", headers=headers).json()["identity"]
    with database.write() as connection:
        now = database.now(connection)
        catalog = Catalog(connection, actor=LOCAL, now=now)
        project = catalog.create_project({"slug": f"bench-{secrets.token_hex(4)}", "name": "Benchmark"})
        own = {"project_id": project.id}
        binding = catalog.create_binding({**own, "capability": CAPABILITY, "channel": "stable"})
        client = catalog.create_client({
            "project_binding_id": binding.id, "slug": "load", "name": "Load", "capabilities": [CAPABILITY]
        })  # fmt: skip
        artifact = catalog.create_artifact({**own, "slug": "a", "source": "none", "revision": "none", "files": {}})
        runtime = catalog.create_runtime({
            **own, "slug": "r", "kind": "steelyard", "base_url": upstream.url, "on_overlong": "reports",
            "key_variable": "STEELYARD_UPSTREAM_BENCH", "timeout_s": 30.0,
        })  # fmt: skip
        means = catalog.create_identity({
            **own, "slug": "i", "model": upstream.model, "dimension": identity["dimension"], "pooling": "mean",
            "is_normalized": True, "query_prompt": "", "document_prompt": "", "max_length": identity["max_tokens"],
            "dtype": "float32",
        })  # fmt: skip
        deployment = catalog.create_deployment({
            "slug": "d", "capability": CAPABILITY, "artifact_id": artifact.id, "runtime_id": runtime.id,
            "embedding_identity_id": means.id, "served_model": identity["model"], "stage": "production",
            "allows_truncation": False,
        })  # fmt: skip
        catalog.set_current(binding.id, deployment.id, expected_version=1)
        _credential, secret = issue_for_client(connection, client.id, name="load", actor=LOCAL, now=now)
    database.close()
    return secret.text


@contextmanager
def serving(room: str, settings: Mapping[str, str]) -> Iterator[str]:
    """Run `steelyard ROOM serve` until the end of the block, and give its address."""
    environ = {name: value for name, value in os.environ.items() if not name.startswith("STEELYARD_")}
    with subprocess.Popen(
        [STEELYARD, room, "serve"], env=environ | dict(settings), stderr=subprocess.PIPE, text=True
    ) as process:
        lines = []
        for line in process.stderr or ():
            lines.append(line)
            if found := re.search(r"http://[\d.:]+", line):
                break
        else:
            sys.exit(f"the {room} did not start:\n{''.join(lines)}")
        # A full pipe would block the server, so the rest of its log is read and dropped.
        reader = threading.Thread(target=deque, args=(process.stderr, 0))
        reader.start()
        try:
            yield found[0]
        finally:
            process.send_signal(signal.SIGTERM)
            reader.join()


def report(figures: Mapping[tuple[str, int], Figures]) -> str:
    """Return the figures as a Markdown table; a ratio is against the direct calls with as many clients."""
    lines = [
        "| embeddings | clients | per second | over direct | p50 ms | added p50 ms | p99 ms | added p99 ms |",
        "| --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    for (name, clients), found in figures.items():
        base = figures["direct, 20 ms" if name.endswith("20 ms") else "direct", clients]
        lines.append(
            f"| {name} | {clients} | {found.per_s:.0f} | {found.per_s / base.per_s:.2f} | {found.p50_ms:.1f} "
            f"| {found.p50_ms - base.p50_ms:.1f} | {found.p99_ms:.1f} | {found.p99_ms - base.p99_ms:.1f} |"
        )
    return "\n".join(lines)


if __name__ == "__main__":
    main()
