"""PostgreSQL dies under a serving hub and comes back: the hub says so, recovers by itself, and has lost nothing."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from tests.durability.invariants import require_whole
from tests.durability.lives import seeded, wait_for_answers
from tests.durability.traffic import Scene, make_scene, traffic
from tests.gateway.upstreams import serving_upstream
from tests.hub_process import hubs_serving

from steelyard.hub.db import migrate
from steelyard.hub.db.database import Database

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.gateway.upstreams import Upstream
    from tests.postgres import Cluster
    from tests.processes import Answer, Server


@pytest.fixture
def upstream() -> Iterator[Upstream]:
    with serving_upstream() as upstream:
        yield upstream


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    """Give a server of the test's own, which waits for its disk as an operator's does."""
    from tests.postgres import Cluster  # noqa: PLC0415

    cluster = Cluster(is_fsynced=True)
    yield cluster
    cluster.stop()


@pytest.fixture
def scene(cluster, upstream) -> Scene:
    database = Database(cluster.create("hub"))
    migrate.upgrade(database)
    database.close()
    return make_scene(cluster.url("hub"), upstream)


def test_a_hub_outlives_the_death_of_its_postgresql(scene, cluster):
    outlive(scene, cluster, times=2)


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_a_hub_outlives_many_deaths_of_its_postgresql(scene, cluster):
    outlive(scene, cluster, times=20)


def outlive(scene: Scene, cluster: Cluster, *, times: int) -> None:
    """Kill the server under load again and again, with one hub throughout."""
    rng = seeded()
    with hubs_serving(scene.url) as [hub]:
        for _ in range(times):
            with traffic(scene, hub.port, rng=rng, goes_on=True):
                wait_for_answers(scene)
                cluster.kill()
                wait_for_refusals(scene)
                assert_says_so(scene, hub)
                cluster.start()
                wait_for_answers(scene)
            database = Database(scene.url)
            require_whole(database, scene.ledger)
            database.close()
        assert hub.request("GET", "/health?ready").status == 200
        assert hub.stop() == 0, hub.log.text


def wait_for_refusals(scene: Scene) -> None:
    before = len(scene.ledger.refused)
    scene.ledger.wait_until(lambda: len(scene.ledger.refused) > before + 20, what="refusals by the hub")


def assert_says_so(scene: Scene, hub: Server) -> None:
    """Check what the hub answers while its database is gone: each interface in its own shape."""
    openai = embed(hub, scene.world.secret)
    assert openai.status == 503, openai
    assert list(openai.json) == ["error"]
    assert int(openai.headers["retry-after"]) >= 1
    problem = hub.request("GET", "/api/v1/projects", Authorization=f"Bearer {scene.operator}")
    assert problem.status == 503, problem
    assert problem.headers["content-type"] == "application/problem+json"
    assert problem.json["code"] == "STORE_UNAVAILABLE"
    assert int(problem.headers["retry-after"]) >= 1
    assert hub.request("GET", "/health").status == 200


def embed(hub: Server, secret: str) -> Answer:
    body = json.dumps({"model": "stable", "input": "Where is my parcel?"}).encode()
    return hub.request("POST", "/v1/embeddings", body, Authorization=f"Bearer {secret}")
