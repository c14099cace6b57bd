"""How long publishing a comparison takes, and whether a long history slows its first page, all in one run.

    publish     POST …/result of 100 cases with 100 ranked results on each leg, through a really running hub: reading,
                every check, metrics, statistics, and one transaction; a client of its own process waits for the answer
    bare rows   the peer: the same rows of the same tables, ready made, inserted and committed by one thread without
                HTTP, checks or metrics
    first page  GET of the history's first fifty, with their summaries, among a hundred and among a hundred thousand

Both on SQLite and on PostgreSQL. Run it from the repository's root with `python -m benchmarks.comparisons`; it prints a
Markdown report. Leave the machine alone meanwhile.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
import uuid
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click
import httpx2
from benchmarks.latencies import Figures
from sqlalchemy import insert, select
from tests.comparing import PATH, Stage, make_stage
from tests.databases import PostgresqlDatabases, SqliteDatabases
from tests.hub_api import Asked, case, revision
from tests.hub_process import hubs_serving
from tests.postgres import Cluster

from steelyard.hub.comparisons import store
from steelyard.hub.comparisons.domain.capability import LEGS, Outcome
from steelyard.hub.comparisons.domain.published import Published, Result, Run
from steelyard.hub.db.database import Database
from steelyard.hub.db.tables import (
    comparisons,
    evaluation_summaries,
    gateway_requests,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tests.databases import Databases

CASES = 100
RANKED = 100
HISTORIES = (100, 100_000)
_BATCH_ROWS = 1000


class Measured(NamedTuple):
    """What one database gave: whole publications, bare rows, and the first page by the history's length."""

    publish: Figures
    bare_rows: Figures
    body_bytes: int
    pages: dict[int, Figures]


def main() -> None:
    """Measure everything."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=100, help="publications on each database (100)")
    parser.add_argument("--reads", type=int, default=300, help="first pages of each history (300)")
    arguments = parser.parse_args()
    with ExitStack() as stack:
        cluster = Cluster()
        stack.callback(cluster.stop)
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        sources: dict[str, Databases] = {"SQLite": SqliteDatabases(folder), "PostgreSQL": PostgresqlDatabases(cluster)}
        measured = {}
        with click.progressbar(sources, label="Databases", file=sys.stderr, item_show_func=str) as bar:
            for name in bar:
                with sources[name].fresh() as url:
                    measured[name] = measure(url, rounds=arguments.rounds, reads=arguments.reads)
    print(report(measured))


def measure(url: str, *, rounds: int, reads: int) -> Measured:
    """Publish so often, then let the history grow and read its first page so often."""
    database = Database(url)
    stage = make_stage(Asked(database), content=revision(cases=[big_case(number) for number in range(CASES)]))
    with hubs_serving(url, count=1) as [server], httpx2.Client(base_url=server.url, trust_env=False) as http:
        took, size_bytes = publish_all(stage, http, rounds=rounds)
        publish = figures(took)
        bare = figures([insert_bare(stage) for _ in range(rounds)])
        pages = {}
        for length in HISTORIES:
            lengthen(database, to=length)
            pages[length] = figures([first_page(stage, http) for _ in range(reads)])
    database.close()
    return Measured(publish=publish, bare_rows=bare, body_bytes=size_bytes, pages=pages)


def figures(took: Sequence[float]) -> Figures:
    """Return the figures of what was done one after another; the first is a warm-up."""
    return Figures.of(took[1:], took_s=sum(took[1:]))


def big_case(number: int) -> dict[str, Any]:
    """Return a case that has thirty labels."""
    return case(number, labels={f"chunk-{number}-{place}": 1 + place % 3 for place in range(30)})


def publish_all(stage: Stage, http: httpx2.Client, *, rounds: int) -> tuple[list[float], int]:
    """Carry out so many comparisons, and return how long each result took, and a result's size."""
    took = []
    headers = {"Authorization": f"Bearer {stage.consumer.secret}", "Content-Type": "application/json"}
    for _ in range(rounds + 1):
        comparison, claim = stage.claimed()
        body = json.dumps(stage.result(claim, current=leg(stage, 0), candidate=leg(stage, 7))).encode()
        took.append(timed(lambda: http.post(
            f"/api/v1{PATH}/{comparison['id']}/result", content=body, headers=headers, timeout=60  # noqa: B023
        ).raise_for_status()))  # fmt: skip
    return took, len(body)


def leg(stage: Stage, shift: int) -> dict[str, Any]:
    """Return rankings of so many results, of which the relevant ones begin at another place for each *shift*."""
    return {
        "results": [
            {
                "case_id": each["case_id"],
                "ranked_results": [
                    {
                        "chunk_id": f"chunk-{number}-{(place * 37 + shift) % RANKED}",
                        "document_id": f"document-{place}",
                        "score": 1 - place / RANKED,
                    }
                    for place in range(RANKED)
                ],
                "latency_ms": 20.0 + place_of(number),
            }
            for number, each in enumerate(stage.cases)
        ]
    }


def place_of(number: int) -> float:
    """Return a number from 0 to 10 that looks random and is not."""
    return (number * 7919) % 1000 / 100


def insert_bare(stage: Stage) -> float:
    """Insert what a publication inserts, and return how long that took."""
    database = stage.database
    comparison_id = uuid.uuid4()
    with database.write() as connection:
        template = connection.execute(select(comparisons).limit(1)).one()._mapping
        values = {name: value for name, value in template.items() if name != "number"}
        values |= {"id": comparison_id, "idempotency_key": str(comparison_id)}
        connection.execute(insert(comparisons).values(**values))
    row_ids = new_row_ids(stage)
    summary = {"metrics_version": "none"}
    with database.read() as connection:
        summary = connection.scalar(select(evaluation_summaries.c.summary).limit(1)) or summary
    runs = {}
    for name in LEGS:
        results = leg(stage, 0)["results"]
        runs[name] = Run(
            id=uuid.uuid4(),
            deployment_id=uuid.UUID(stage.ids[f"{name}_deployment_id"]),
            results=tuple(
                Result(
                    outcome=Outcome(
                        case_id=uuid.UUID(one["case_id"]), answer=one["ranked_results"], latency_ms=1.0, error_code=None
                    ),
                    metrics={"ndcg": 0.5, "recall": 0.5, "mrr": 0.5, "map": 0.5, "hit_rate": 1.0, "judged": 0.5},
                    row_id=row_ids.pop(),
                )
                for one in results
            ),
        )
    with database.read() as connection:
        now = database.now(connection)
    published = Published(comparison_id=comparison_id, at=now, runs=runs, summary=summary)

    def write() -> None:
        with database.write() as connection:
            store.insert_published(connection, published)

    return timed(write)


def new_row_ids(stage: Stage) -> list[int]:
    """Log a request for each case and leg, and return the rows' ids."""
    public = [*stage.evidence("current").values(), *stage.evidence("candidate").values()]
    with stage.database.read() as connection:
        return list(connection.scalars(select(gateway_requests.c.id).where(gateway_requests.c.request_id.in_(public))))


def lengthen(database: Database, *, to: int) -> None:
    """Copy a completed comparison with its summary until the history has *to* of them."""
    with database.read() as connection:
        present = len(connection.scalars(select(comparisons.c.number)).all())
        row = (
            connection.execute(
                select(comparisons, evaluation_summaries.c.summary, evaluation_summaries.c.metrics_version)
                .join(evaluation_summaries, evaluation_summaries.c.comparison_id == comparisons.c.id)
                .limit(1)
            )
            .one()
            ._mapping
        )
    own = {column.name: row[column.name] for column in comparisons.columns if column.name != "number"}
    for begin in range(present, to, _BATCH_ROWS):
        ids = [uuid.uuid4() for _ in range(min(_BATCH_ROWS, to - begin))]
        with database.write() as connection:
            connection.execute(insert(comparisons), [own | {"id": one, "idempotency_key": str(one)} for one in ids])
            summary = {name: row[name] for name in ("summary", "metrics_version", "created_at")}
            connection.execute(insert(evaluation_summaries), [summary | {"comparison_id": one} for one in ids])


def first_page(stage: Stage, http: httpx2.Client) -> float:
    """Return how long the first page took."""
    headers = {"Authorization": f"Bearer {stage.operator.secret}"}
    return timed(lambda: http.get(f"/api/v1{PATH}?limit=50", headers=headers).raise_for_status())


def timed(act: Callable[[], object]) -> float:
    """Return how many seconds *act* took."""
    began = time.perf_counter()
    act()
    return time.perf_counter() - began


def report(measured: dict[str, Measured]) -> str:
    """Return the Markdown report."""
    size = max(one.body_bytes for one in measured.values()) / 1e6
    lines = [
        f"# Comparisons, {os.cpu_count()} cores\n",
        f"Results of {CASES} cases with {RANKED} ranked results on each leg: {size:.1f} MB of JSON.\n",
        "| database | publish p50 ms | publish p99 ms | bare rows p50 ms | publish over bare rows |",
        "| --- | --- | --- | --- | --- |",
    ]
    for name, one in measured.items():
        lines.append(
            f"| {name} | {one.publish.p50_ms:.0f} | {one.publish.p99_ms:.0f} | {one.bare_rows.p50_ms:.0f} | "
            f"{one.publish.p50_ms / one.bare_rows.p50_ms:.1f} |"
        )
    lines += [
        "",
        "| database | history | first page p50 ms | p99 ms | over the shortest |",
        "| --- | --- | --- | --- | --- |",
    ]
    for name, one in measured.items():
        shortest = one.pages[HISTORIES[0]].p50_ms
        for length, seen in one.pages.items():
            lines.append(
                f"| {name} | {length} | {seen.p50_ms:.1f} | {seen.p99_ms:.1f} | {seen.p50_ms / shortest:.2f} |"
            )
    return "\n".join(lines)


if __name__ == "__main__":
    main()
