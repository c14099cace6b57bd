"""Whether a database is what this product's own migrations made of it.

A revision's id alone proves little: another graph may use the same ids, and anybody can stamp one. So each migration
that runs leaves a row with this product's lineage, its file's digest and the fingerprint of the schema that it left.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from sqlalchemy import inspect, select, text

from steelyard.hub.db.errors import LineageForeign, SchemaAbsent, SchemaAhead, SchemaBehind, SchemaChanged
from steelyard.hub.db.schema import VERSION_TABLE, fingerprint, is_fingerprint
from steelyard.hub.db.tables import store_lineage

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime

    from sqlalchemy import Connection

# The name of this one graph of migrations, which no other may use.
LINEAGE_ID = "steelyard-hub-6f1c1f0e-2c0b-4f3b-9a55-0d0c4c0f7f3e"


class Graph(NamedTuple):
    """The migrations that this version has, oldest first, with the SHA-256 of each one's file."""

    digests: Mapping[str, str]

    @property
    def revisions(self) -> Sequence[str]:
        """The ids, oldest first."""
        return list(self.digests)

    @property
    def head(self) -> str:
        """The newest revision."""
        return self.revisions[-1]


def current_revision(connection: Connection) -> str | None:
    """Return the revision that the database says it is at; None where it has no tables.

    Raises LineageForeign where it has tables, but none of ours.
    """
    tables = inspect(connection).get_table_names()
    if VERSION_TABLE not in tables:
        if tables:
            raise LineageForeign("The database has tables that are not this product's; give the hub one of its own")
        return None
    found = list(connection.scalars(text(f"SELECT version_num FROM {VERSION_TABLE}")))  # noqa: S608  # A constant.
    if not found:  # What a downgrade to nothing leaves.
        return None
    if len(found) > 1 or store_lineage.name not in tables:
        raise LineageForeign
    return str(found[0])


def record(connection: Connection, revision: str, *, graph: Graph, at: datetime) -> None:
    """Leave the row of a migration that has just run."""
    row = {
        "revision": revision,
        "lineage_id": LINEAGE_ID,
        "file_sha256": graph.digests[revision],
        "schema_sha256": fingerprint(connection),
        "applied_at": at,
    }
    connection.execute(store_lineage.insert().values(row))


def require_current(connection: Connection, *, graph: Graph) -> None:
    """Return if the database is at the newest revision, whole and ours; raises a SchemaRefused."""
    revision = current_revision(connection)
    if revision is None:
        raise SchemaAbsent
    require_own(connection, revision, graph=graph)
    if revision != graph.head:
        raise SchemaBehind(
            f"The database is at revision {revision} and this version needs {graph.head}: take a backup, then run "
            "`steelyard hub db upgrade`"
        )


def require_own(connection: Connection, revision: str, *, graph: Graph) -> None:
    """Return if *revision*, which the database is at, was reached by our migrations alone; raises a SchemaRefused."""
    rows = {row.revision: row for row in connection.execute(select(store_lineage))}
    if any(row.lineage_id != LINEAGE_ID for row in rows.values()) or revision not in rows:
        raise LineageForeign(
            f"The database says revision {revision}, but this product's migrations did not bring it there"
        )
    if revision not in graph.digests:
        raise SchemaAhead(f"The database is at revision {revision}, which a newer version made; start that version")
    passed = graph.revisions[: graph.revisions.index(revision) + 1]
    if set(rows) != set(passed):
        raise LineageForeign(f"The database's record of migrations does not lead to its revision, {revision}")
    for name in passed:
        if rows[name].file_sha256 != graph.digests[name]:
            raise LineageForeign(f"The database's migration {name} was not the one of that name that this version has")
    if not is_fingerprint(connection, rows[revision].schema_sha256):
        raise SchemaChanged
