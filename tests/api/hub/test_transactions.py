"""A request that changes something is one transaction: the change and its event are there together, or neither is."""

from __future__ import annotations

from collections import Counter
from contextlib import contextmanager

import pytest
from sqlalchemy import event, select
from tests.hub_api import revision

from steelyard.hub.db import tables


@contextmanager
def counted(database):
    """Count the transactions that write, by how they end."""
    ends: Counter[str] = Counter()
    with database.write():  # So that the engine is there.
        pass
    listeners = [(name, lambda _connection, name=name: ends.update([name])) for name in ("commit", "rollback")]
    for name, listener in listeners:
        event.listen(database._writer, name, listener)
    yield ends
    for name, listener in listeners:
        event.remove(database._writer, name, listener)


def rows(database) -> dict[str, list[tuple[object, ...]]]:
    """Return everything that the catalogue and its trail hold."""
    with database.read() as connection:
        return {
            name: sorted((tuple(row) for row in connection.execute(select(table))), key=str)
            for name, table in tables.metadata.tables.items()
            if not name.startswith("store_")
        }


@pytest.fixture
def changes(operator, catalogue):
    """Give a call for each way to change something, in an order in which all succeed."""
    binding, client = catalogue.binding["id"], catalogue.client["id"]
    project = {"project_id": catalogue.project["id"]}
    route = operator.make("/routes", project_binding_id=binding, slug="x", deployment_id=catalogue.candidate["id"])
    suite = operator.make("/suites", **project, slug="s", name="S")
    credential = operator.make("/credentials", role="viewer", name="v")["credential"]["id"]
    whole = {"projects": {"other": {"name": "O", "bindings": {"rag.embedding@1": {"clients": {"c": {"name": "C"}}}}}}}
    return {
        "project": ("/projects", {"slug": "p", "name": "P"}),
        "artifact": ("/artifacts", {**project, "slug": "n", "source": "s", "revision": "r", "files": {"f": "ab" * 32}}),
        "pointer": (
            f"/project-bindings/{binding}/current-deployment",
            {"deployment_id": catalogue.production["id"], "expected_version": 1},
        ),
        "binding": (f"/project-bindings/{binding}/deactivate", {"expected_version": 2}),
        "route": (f"/routes/{route['id']}/deactivate", {"expected_version": 1}),
        "stage": (f"/deployments/{catalogue.candidate['id']}/stage", {"stage": "production", "expected_version": 1}),
        "retire": (f"/deployments/{catalogue.candidate['id']}/retire", {"expected_version": 2}),
        "secret": (f"/service-clients/{client}/credentials", {"name": "one"}),
        "client": (f"/service-clients/{client}/revoke", {"expected_version": 1}),
        "credential": (f"/credentials/{credential}/revoke", {}),
        "revision": (f"/suites/{suite['id']}/revisions", revision()),
        "document": ("/apply", {"document": whole, "dry_run": False}),
    }


def test_every_change_is_one_commit(asked, operator, changes):
    with counted(asked.database) as ends:
        for name, (path, body) in changes.items():
            ends.clear()
            assert operator.post(path, **body).status_code in (200, 201), name
            assert ends == {"commit": 1}, name


def test_a_refused_change_and_a_read_commit_nothing(asked, operator, changes):
    with counted(asked.database) as ends:
        assert operator.post("/projects", slug="search", name="Taken").status_code == 409
        assert operator.post(changes["pointer"][0], **{**changes["pointer"][1], "expected_version": 9}).status_code
        assert ends == {"rollback": 2}
        operator.get("/projects")
        assert ends == {"rollback": 2}


def test_a_change_whose_event_cannot_be_written_is_not_made(asked, operator, changes, monkeypatch):
    def fail(*_arguments, **_fields):
        raise ZeroDivisionError

    for name, (path, body) in changes.items():
        before = rows(asked.database)
        with monkeypatch.context() as patch:
            patch.setattr("steelyard.hub.audit.store.record", fail)
            assert operator.post(path, **body).status_code == 500, name
        assert rows(asked.database) == before, name
        assert operator.post(path, **body).status_code in (200, 201), name
        assert len(rows(asked.database)["audit_events"]) > len(before["audit_events"]), name
