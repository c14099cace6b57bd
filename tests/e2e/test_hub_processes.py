"""Several hub processes on one database: each sees at once what another has answered."""

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
    from collections.abc import Iterator, Sequence

    from tests.gateway.upstreams import Upstream
    from tests.processes import Answer, Server


@pytest.fixture
def upstream() -> Iterator[Upstream]:
    with serving_upstream() as upstream:
        yield upstream


@pytest.fixture
def scene(postgresql_databases, upstream) -> Iterator[Scene]:
    with postgresql_databases.fresh() as url:
        scene = make_scene(url, upstream)
        yield scene
        scene.world.database.close()


@pytest.fixture
def hubs(scene) -> Iterator[Sequence[Server]]:
    """Give three hubs on one PostgreSQL database."""
    with hubs_serving(scene.url, count=3) as hubs:
        yield hubs


def embed(hub: Server, secret: str, text: str = "Where is my parcel?") -> Answer:
    body = json.dumps({"model": "stable", "input": text}).encode()
    return hub.request("POST", "/v1/embeddings", body, Authorization=f"Bearer {secret}")


def change(hub: Server, secret: str, path: str, **body: object) -> Answer:
    return hub.request("POST", f"/api/v1{path}", json.dumps(body).encode(), Authorization=f"Bearer {secret}")


def test_a_credential_that_one_hub_revokes_is_refused_by_every_other_at_once(scene, hubs):
    for one, *others in (hubs, hubs[::-1]):
        issued = change(one, scene.operator, f"/service-clients/{scene.world.client.id}/credentials", name="next")
        assert issued.status == 201, issued
        secret = issued.json["secret"]
        assert [embed(hub, secret).status for hub in others] == [200, 200]
        revoked = change(one, scene.operator, f"/credentials/{issued.json['credential']['id']}/revoke")
        assert revoked.status == 200, revoked
        assert [embed(hub, secret).status for hub in (*others, one)] == [401, 401, 401]
    assert embed(hubs[0], scene.world.secret).status == 200


def test_a_pointer_that_one_hub_moves_is_followed_by_every_gateway_at_once(scene, hubs):
    world = scene.world
    spare = world.change("create_deployment", {
        "slug": "spare", "stage": "production", "capability": world.current.capability, "served_model": "m",
        "artifact_id": world.current.artifact_id, "runtime_id": world.runtime.id, "allows_truncation": False,
        "embedding_identity_id": world.current.embedding_identity_id,
    })  # fmt: skip
    path = f"/project-bindings/{world.binding.id}/current-deployment"
    expected = []
    for turn in range(12):
        target = (spare, world.current)[turn % 2]
        mover, *others = hubs[turn % 3 :] + hubs[: turn % 3]
        version = world.binding.version + turn
        assert change(mover, scene.operator, path, deployment_id=str(target.id), expected_version=version).status == 200
        answers = [embed(hub, world.secret) for hub in others]
        assert [answer.status for answer in answers] == [200, 200]
        expected += [(answer.headers["x-request-id"], target.id) for answer in answers]
    assert [(row["request_id"], row["deployment_id"]) for row in world.rows()] == expected


def test_hubs_that_write_together_never_wait_for_each_other_for_ever(scene, hubs):
    """A deadlock would be a 503, which ends the traffic with a fault; the database counts them too."""
    with traffic(scene, *(hub.port for hub in hubs), rng=seeded()):
        for _ in range(10):
            wait_for_answers(scene)
    assert [hub.stop() for hub in hubs] == [0, 0, 0]
    database = Database(scene.url)
    require_whole(database, scene.ledger)
    with database.read() as connection:
        query = "SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()"
        assert connection.exec_driver_sql(query).scalar_one() == 0
    database.close()


def test_hubs_that_upgrade_one_empty_database_together_all_serve(databases):
    with databases.fresh(is_migrated=False) as url, hubs_serving(url, "--upgrade", count=3) as hubs:
        assert [hub.request("GET", "/health?ready").status for hub in hubs] == [200, 200, 200]
        assert [hub.stop() for hub in hubs] == [0, 0, 0]
        database = Database(url)
        migrate.require_current(database)
        with database.read() as connection:
            assert connection.exec_driver_sql("SELECT count(*), max(number) FROM store_epochs").one() == (1, 1)
        database.close()
        upgrades = sum(hub.log.text.count("now at revision") for hub in hubs)
        assert upgrades == len(migrate.graph().revisions)
