"""What can be shown of a power cut without one: nothing is answered before its commit, and a commit waits for the disk.

Not shown: that the operating system and the disk keep what they said they had written.
"""

from __future__ import annotations

import json
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest
from sqlalchemy import text
from tests.gateway.upstreams import answer_to, serving_upstream
from tests.gateway.world import make_world
from tests.hub_process import hubs_serving
from tests.processes import WAIT_S

from steelyard.hub.db import migrate
from steelyard.hub.db.database import Database

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sqlalchemy import Connection
    from tests.gateway.upstreams import Handler, Upstream
    from tests.processes import Answer, Server

_SOON_S = 0.3
_CALLS = 25


@pytest.fixture
def upstream() -> Iterator[Upstream]:
    with serving_upstream() as upstream:
        yield upstream


@contextmanager
def commits_held(database: Database) -> Iterator[Connection]:
    """Keep every other process from committing a row of the log."""
    with database.write() as connection:
        if database.is_postgresql:
            connection.execute(text("LOCK TABLE gateway_requests IN EXCLUSIVE MODE"))
        yield connection


def embed(hub: Server, secret: str) -> Answer:
    body = json.dumps({"model": "stable", "input": "Where is my parcel?"}).encode()
    return hub.request("POST", "/v1/embeddings", body, Authorization=f"Bearer {secret}")


def test_nothing_is_asked_or_answered_before_its_row_is_committed(database, upstream):
    world = make_world(database, base_url=upstream.url)
    asked, may_reply = threading.Event(), threading.Event()

    def reply(handler: Handler, body: dict[str, Any]) -> None:
        asked.set()
        may_reply.wait(WAIT_S)
        handler.json(answer_to(body))

    upstream.reply = reply
    url = database.url.render_as_string(hide_password=False)
    with hubs_serving(url) as [hub], ThreadPoolExecutor(1) as threads:
        with commits_held(database):
            call = threads.submit(embed, hub, world.secret)
            assert not asked.wait(_SOON_S)
        assert asked.wait(WAIT_S)
        with commits_held(database):
            may_reply.set()
            with pytest.raises(TimeoutError):
                call.result(timeout=_SOON_S)
            assert world.row()["status"] == "started"
        assert call.result(timeout=WAIT_S).status == 200
    assert world.row()["status"] == "completed"


def test_postgresql_flushes_its_log_twice_for_every_call_whatever_the_server_would_do(upstream):
    """Once before the embedding server is asked, once before the answer: the hub's own connections wait for it."""
    from tests.postgres import Cluster  # noqa: PLC0415

    cluster = Cluster(is_fsynced=True)
    try:
        database = Database(cluster.create("hub"))
        migrate.upgrade(database)
        world = make_world(database, base_url=upstream.url)
        cluster.execute("ALTER DATABASE {} SET synchronous_commit = off", "hub")
        with hubs_serving(cluster.url("hub")) as [hub]:
            assert embed(hub, world.secret).status == 200
            before = flushes(database)
            assert [embed(hub, world.secret).status for _ in range(_CALLS)] == [200] * _CALLS
            assert hub.stop() == 0  # A connection that ends gives its counts.
        assert flushes(database) - before >= 2 * _CALLS
        database.close()
    finally:
        cluster.stop()


def flushes(database: Database) -> int:
    """Return how often the server's connections have waited for its log to be on the disk."""
    query = "SELECT sum(fsyncs) FROM pg_stat_io WHERE object = 'wal' AND backend_type = 'client backend'"
    with database.read() as connection:
        return int(connection.scalar(text(query)) or 0)
