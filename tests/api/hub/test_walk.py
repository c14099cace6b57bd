"""The architecture's walk of a change to the catalogue."""

from __future__ import annotations

import pytest
from tests.gateway.world import make_world
from tests.hub_api import caller
from tests.unit.test_docs import calls_noted, walk

from steelyard.hub.db.database import Database

TITLE = "A binding's pointer moves"


@pytest.fixture
def database(sqlite_databases):
    """Give one database: which functions are called is no matter of its kind."""
    with sqlite_databases.fresh() as url:
        database = Database(url)
        yield database
        database.close()


def test_a_pointer_moves_through_the_functions_that_the_architecture_names_in_their_order(database):
    make_world(database, base_url="http://127.0.0.1:1/v1")
    operator = caller(database, "operator")
    (binding,) = operator.get("/project-bindings").json()["items"]
    present = operator.get(f"/deployments/{binding['current_deployment_id']}").json()
    parts = {name: present[name] for name in ("artifact_id", "runtime_id", "embedding_identity_id")}
    other = operator.make("/deployments", slug="other", stage="production", **parts)
    body = {"deployment_id": other["id"], "expected_version": binding["version"]}
    with calls_noted() as called:
        moved = operator.post(f"/project-bindings/{binding['id']}/current-deployment", **body)
    assert moved.json()["version"] == binding["version"] + 1
    assert len(walk(TITLE)) > 6
    assert [name for name in called if name in walk(TITLE)] == walk(TITLE)
