"""Rows for the store's tests, and programs that write them and may be killed."""

from __future__ import annotations

import resource
import sys
import uuid
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from sqlalchemy import select

from steelyard.hub.db import migrate, tables
from steelyard.hub.db.backup import take
from steelyard.hub.db.database import Database
from steelyard.hub.db.errors import StoreError

if TYPE_CHECKING:
    from sqlalchemy import Connection

NOW = datetime(2026, 11, 30, 12, 0, tzinfo=UTC)


def add_event(connection: Connection, action: str) -> None:
    """Add one row to the smallest table that counts its ids up."""
    connection.execute(
        tables.audit_events.insert().values(
            at=NOW, actor_role="local", actor="local", action=action, subject_kind="Test", subject_id="1"
        )
    )


def events(database: Database) -> list[str]:
    """Return what `add_event` has added, oldest first."""
    table = tables.audit_events
    with database.read() as connection:
        query = select(table.c.action).where(table.c.subject_kind == "Test").order_by(table.c.id)
        return list(connection.scalars(query))


def add_project(connection: Connection, slug: str = "shop") -> uuid.UUID:
    """Add a project."""
    project_id = uuid.uuid4()
    connection.execute(
        tables.projects.insert().values(id=project_id, slug=slug, name="Läden & Söhne", created_at=NOW)
    )  # fmt: skip
    return project_id


def add_catalogue(connection: Connection) -> dict[str, uuid.UUID]:
    """Add one thing of each kind that a logged request names, and return the request's columns that name them."""
    project = add_project(connection)
    ids = {name: uuid.uuid4() for name in ("artifact", "runtime", "identity", "deployment", "binding", "route")}
    ids |= {"client": uuid.uuid4(), "credential": uuid.uuid4()}
    owned = {"project_id": project, "created_at": NOW}
    rows = (
        (tables.artifacts, {"id": ids["artifact"], "slug": "a", "source": "s", "revision": "r", "files": {"f": "0"}}),
        (tables.runtimes, {"id": ids["runtime"], "slug": "r", "kind": "steelyard", "base_url": "http://x",
                           "on_overlong": "refuses", "timeout_s": 1.5}),
        (tables.embedding_identities, {"id": ids["identity"], "slug": "i", "model": "m", "dimension": 3,
                                       "pooling": "mean", "is_normalized": True, "query_prompt": "q: ",
                                       "document_prompt": "", "max_length": 8, "dtype": "float32"}),
        (tables.deployments, {"id": ids["deployment"], "slug": "d", "capability": "rag.embedding@1",
                              "artifact_id": ids["artifact"], "runtime_id": ids["runtime"],
                              "embedding_identity_id": ids["identity"], "served_model": "m", "stage": "production",
                              "allows_truncation": False, "is_active": True, "version": 1}),
        (tables.project_bindings, {"id": ids["binding"], "capability": "rag.embedding@1", "channel": "stable",
                                   "is_active": True, "current_deployment_id": ids["deployment"], "version": 1}),
        (tables.service_clients, {"id": ids["client"], "project_binding_id": ids["binding"], "slug": "c", "name": "c",
                                  "capabilities": ["rag.embedding@1"], "is_active": True, "version": 1}),
    )  # fmt: skip
    for table, row in rows:
        connection.execute(table.insert().values(**owned, **row))
    connection.execute(
        tables.routes.insert().values(
            id=ids["route"], project_binding_id=ids["binding"], slug="stable", kind="stable", is_active=True,
            version=1, created_at=NOW,
        )
    )  # fmt: skip
    connection.execute(
        tables.credentials.insert().values(
            id=ids["credential"], public_id="abc", role="client", name="c", service_client_id=ids["client"],
            secret_sha256="0" * 64, created_at=NOW,
        )
    )  # fmt: skip
    return {
        "service_client_id": ids["client"],
        "credential_id": ids["credential"],
        "project_binding_id": ids["binding"],
        "route_id": ids["route"],
        "deployment_id": ids["deployment"],
    }


def add_request(connection: Connection, names: dict[str, uuid.UUID], *, started_at: datetime = NOW) -> int:
    """Add one logged request and return its row id."""
    add_requests(connection, names, [started_at])
    table = tables.gateway_requests
    return int(connection.scalars(select(table.c.id).order_by(table.c.id.desc()).limit(1)).one())


def add_requests(connection: Connection, names: dict[str, uuid.UUID], times: list[datetime]) -> None:
    """Add a logged request that began at each of *times*."""
    rows = [
        {
            **names,
            "request_id": uuid.uuid4().hex,
            "capability": "rag.embedding@1",
            "input_type": "query",
            "input_sha256": "0" * 64,
            "input_count": 1,
            "started_at": started_at,
            "completed_at": started_at + timedelta(milliseconds=12, microseconds=345),
            "status": "completed",
            "latency_ms": 12.345,
            "tokens": 3,
            "is_truncated": False,
        }
        for started_at in times
    ]
    connection.execute(tables.gateway_requests.insert(), rows)


def write_until_killed(url: str, start: str) -> None:
    """Commit rows for ever, and tell each one's name once it is committed; a row that fails is named as failed."""
    database = Database(url)
    number = 0
    while True:
        name = f"{start}-{number}"
        try:
            with database.write() as connection:
                add_event(connection, name)
        except StoreError as error:
            tell(f"failed {error.code}")
        else:
            tell(f"wrote {name}")
        number += 1


def write_some(url: str, start: str, count: str) -> None:
    """Commit *count* rows, each of which reads before it writes."""
    database = Database(url)
    for number in range(int(count)):
        with database.write() as connection:
            connection.execute(select(tables.audit_events.c.id).limit(1)).all()
            add_event(connection, f"{start}-{number}")
    database.close()


def upgrade(url: str, folder: str) -> None:
    """Run the migrations in *folder*."""
    migrate.FOLDER = Path(folder)
    database = Database(url)
    database.make_file()
    tell("begins")
    ran = migrate.upgrade(database)
    tell(f"ran {len(ran)}")


def fill_the_disk(url: str) -> None:
    """Commit rows until no file may grow any more, then once more when it may."""
    database = Database(url)
    unlimited = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (database.path.stat().st_size + 100_000, unlimited[1]))
    for number in range(1000):
        try:
            with database.write() as connection:
                add_event(connection, str(number))
        except StoreError as error:
            tell(f"failed {error.code}")
            break
        tell(f"wrote {number}")
    resource.setrlimit(resource.RLIMIT_FSIZE, unlimited)
    with database.write() as connection:
        add_event(connection, "after")
    tell("wrote after")
    database.close()


def back_up_without_room(url: str, path: str) -> None:
    """Take a backup to a disk that has less room than it needs."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, resource.RLIM_INFINITY))
    database = Database(url)
    try:
        take(database, Path(path), on_progress=lambda _done, _total: None)
    except StoreError as error:
        tell(f"failed {error.code}")
    database.close()


def tell(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    globals()[sys.argv[1]](*sys.argv[2:])
