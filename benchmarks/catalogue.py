"""How many reads of the catalogue per second the hub answers, as ratios against two named peers, all in one run.

    bare endpoint   a FastAPI endpoint in one process that answers the same content out of memory: no credential, no
                    database, no request id, no log; what the hub adds to it is the ratio
    bare query      the same query and the same objects in one thread of this process, without HTTP

A get is one deployment by its id, a list fifty of two hundred. `steelyard hub serve` runs on SQLite, on PostgreSQL, and
as four processes on one PostgreSQL database; clients keep their connections. Run it from the repository's root with
`python -m benchmarks.catalogue`; it prints a Markdown report. Leave the machine alone meanwhile.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
import tempfile
import time
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click
import uvicorn
from benchmarks.latencies import Figures
from fastapi import FastAPI
from tests.databases import PostgresqlDatabases, SqliteDatabases
from tests.gateway.world import make_world
from tests.hub_process import hubs_serving
from tests.postgres import Cluster
from tests.processes import Server, started

from steelyard.hall.settings import Address
from steelyard.hub.catalog import domain, store
from steelyard.hub.db.database import Database
from steelyard.hub.rest.paging import Page, PageQuery, page_of
from steelyard.web.process import bind, url_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from uuid import UUID

    from tests.databases import Databases

CLIENTS = (1, 8, 32)
DEPLOYMENTS = 200
LISTED = 50
WARM_UP_S = 0.5
READS = ("get", "list")


@dataclass(frozen=True)
class Content:
    """A database with many deployments: one of them, and who may read them."""

    url: str
    deployment_id: UUID
    secret: str

    def path_of(self, read: str) -> str:
        """Return what a client asks for."""
        base = "/api/v1/deployments"
        return f"{base}/{self.deployment_id}" if read == "get" else f"{base}?limit={LISTED}"


def main() -> None:
    """Measure everything, or serve the bare endpoint."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=5.0, help="length of each measurement (5)")
    parser.add_argument("--serve-bare", metavar="URL", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.serve_bare:
        serve_bare(arguments.serve_bare)
    else:
        print(report(*measure(arguments.seconds)))


def measure(seconds: float) -> tuple[dict[str, float], dict[tuple[str, str, int], Figures]]:
    """Return the bare queries' rates by database and read, and what clients saw by server, read and their number."""
    queries: dict[str, float] = {}
    figures: dict[tuple[str, str, int], Figures] = {}
    with ExitStack() as stack:
        cluster = Cluster()
        stack.callback(cluster.stop)
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        sqlite = fill(stack, SqliteDatabases(folder))
        postgresql = fill(stack, PostgresqlDatabases(cluster))
        for name, content in (("SQLite", sqlite), ("PostgreSQL", postgresql)):
            queries |= {f"{name}, {read}": query_rate(content, read, seconds) for read in READS}
        runs = [("bare endpoint", sqlite, 0), ("SQLite", sqlite, 1), ("PostgreSQL", postgresql, 1),
                ("PostgreSQL, 4 processes", postgresql, 4)]  # fmt: skip
        with click.progressbar(
            runs, label="Benchmarks", file=sys.stderr, item_show_func=lambda run: run and run[0]
        ) as bar:
            for name, content, count in bar:
                figures |= {(name, *of): seen for of, seen in measure_servers(content, count, seconds).items()}
    return queries, figures


def measure_servers(content: Content, count: int, seconds: float) -> dict[tuple[str, int], Figures]:
    """Start so many hubs, or the bare endpoint where it is none, and ask them."""
    with ExitStack() as stack:
        if count:
            servers = stack.enter_context(hubs_serving(content.url, count=count))
        else:
            command = [sys.executable, "-m", "benchmarks.catalogue", "--serve-bare", content.url]
            servers = [Server(*stack.enter_context(started(command, os.environ)))]
        ports = [server.port for server in servers]
        return {
            (read, clients): asyncio.run(load(ports, content, read, clients=clients, seconds=seconds))
            for read in READS
            for clients in CLIENTS
        }


def fill(stack: ExitStack, databases: Databases) -> Content:
    """Make a database of so many deployments, which lasts as long as *stack*."""
    url = stack.enter_context(databases.fresh())
    database = Database(url)
    world = make_world(database, base_url="http://127.0.0.1:9/v1")
    parts = {
        "artifact_id": world.current.artifact_id, "runtime_id": world.runtime.id, "capability": "rag.embedding@1",
        "embedding_identity_id": world.current.embedding_identity_id, "served_model": "m", "allows_truncation": False,
        "stage": "nonproduction",
    }  # fmt: skip
    for number in range(DEPLOYMENTS):
        made = world.change("create_deployment", parts | {"slug": f"deployment-{number}"})
    database.close()
    return Content(url=url, deployment_id=made.id, secret=world.viewer_secret)


def query_of(database: Database, content: Content, read: str) -> Callable[[], object]:
    """Return what an endpoint does beside HTTP and the caller's credential."""
    query = PageQuery(limit=LISTED, offset=0)

    def get() -> object:
        with database.read() as connection:
            return store.get(connection, domain.Deployment, content.deployment_id)

    def page() -> object:
        with database.read() as connection:
            return page_of(store.page(connection, domain.Deployment, **query.arguments()), query=query)

    return get if read == "get" else page


def query_rate(content: Content, read: str, seconds: float) -> float:
    """Return how often per second one thread can do it."""
    database = Database(content.url)
    query = query_of(database, content, read)
    query()
    began, count = time.perf_counter(), 0
    while (took := time.perf_counter() - began) < seconds:
        query()
        count += 1
    database.close()
    return count / took


def serve_bare(url: str) -> None:
    """Serve the same content out of memory, as plain FastAPI does."""
    database = Database(url)
    with database.read() as connection:
        things = store.page(connection, domain.Deployment, limit=LISTED, offset=0)
    database.close()
    api = FastAPI()
    page = page_of(things, query=PageQuery(limit=LISTED, offset=0))

    @api.get("/api/v1/deployments/{thing_id}")
    def get(thing_id: str) -> domain.Deployment:  # noqa: ARG001  # As the hub's endpoint has it.
        return things[0]

    @api.get("/api/v1/deployments")
    def list_all(limit: int) -> Page[domain.Deployment]:  # noqa: ARG001
        return page

    listener = bind(Address("127.0.0.1", 0), variable="the bare endpoint's address")
    print(f"Serving the bare endpoint on {url_of(listener)}", file=sys.stderr, flush=True)
    config = uvicorn.Config(api, http="h11", ws="none", lifespan="off", log_config=None, access_log=False)
    uvicorn.Server(config).run(sockets=[listener])


async def load(ports: Sequence[int], content: Content, read: str, *, clients: int, seconds: float) -> Figures:
    """Ask from so many connections at once, spread over *ports*."""
    latencies: list[float] = []
    measured_from = time.perf_counter() + WARM_UP_S
    ends = measured_from + seconds
    head = (
        f"GET {content.path_of(read)} HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {content.secret}\r\n\r\n"
    ).encode()

    async def one(port: int) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        while (began := time.perf_counter()) < ends:
            writer.write(head)
            await read_answer(reader)
            if began >= measured_from:
                latencies.append(time.perf_counter() - began)
        writer.close()
        await writer.wait_closed()

    await asyncio.gather(*(one(ports[number % len(ports)]) for number in range(clients)))
    return Figures.of(latencies, took_s=seconds)


async def read_answer(reader: asyncio.StreamReader) -> None:
    """Read one answer to its end; fails on any but a 200."""
    head = (await reader.readuntil(b"\r\n\r\n")).lower()
    if not head.startswith(b"http/1.1 200 "):
        raise RuntimeError(head.decode("latin-1"))
    await reader.readexactly(int(head.partition(b"content-length: ")[2].partition(b"\r\n")[0]))


def report(queries: dict[str, float], figures: dict[tuple[str, str, int], Figures]) -> str:
    """Return the Markdown report."""
    lines = [
        f"# Catalogue reads, {os.cpu_count()} cores\n",
        "Bare queries per second, one thread: "
        + "; ".join(f"{name} {per_s:.0f}" for name, per_s in queries.items())
        + "\n",
        "| read | clients | server | per second | p50 ms | p99 ms | over the bare endpoint | over the bare query |",
        "| --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    for name, read, clients in sorted(figures, key=lambda key: (key[1], key[2])):
        seen, bare = figures[name, read, clients], figures["bare endpoint", read, clients]
        query = queries.get(f"{name.partition(',')[0]}, {read}")
        lines.append(
            f"| {read} | {clients} | {name} | {seen.per_s:.0f} | {seen.p50_ms:.2f} | {seen.p99_ms:.2f} | "
            f"{seen.per_s / bare.per_s:.2f} | {'' if query is None else f'{seen.per_s / query:.2f}'} |"
        )
    return "\n".join(lines)


if __name__ == "__main__":
    main()
