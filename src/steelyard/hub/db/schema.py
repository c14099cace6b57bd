"""What a database's tables are, in plain values, and the fingerprint of that.

It is reflected, not remembered: whoever changes a column, a rule, an index or a trigger by hand changes the
fingerprint. Rows, views and what extensions of PostgreSQL bring are no part of it.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from sqlalchemy import inspect, text

from steelyard.hall.digests import sha256_of_text

if TYPE_CHECKING:
    from sqlalchemy import Connection, Inspector

VERSION_TABLE = "alembic_version"
# Tables of PostgreSQL's own schema that an extension owns, such as PostGIS's.
_EXTENSION_TABLES = text(
    "SELECT c.relname FROM pg_depend d JOIN pg_class c ON c.oid = d.objid "
    "WHERE d.classid = 'pg_class'::regclass AND d.deptype = 'e' AND c.relnamespace = current_schema()::regnamespace"
)
_TRIGGERS = {
    "sqlite": text("SELECT tbl_name, name, sql FROM sqlite_schema WHERE type = 'trigger'"),
    "postgresql": text(
        "SELECT c.relname, t.tgname, pg_get_triggerdef(t.oid) FROM pg_trigger t JOIN pg_class c ON c.oid = t.tgrelid "
        "WHERE NOT t.tgisinternal AND c.relnamespace = current_schema()::regnamespace"
    ),
}


def fingerprint(connection: Connection) -> str:
    """Return the SHA-256 of `describe`'s answer as canonical JSON."""
    return sha256_of_text(json.dumps(describe(connection), sort_keys=True, separators=(",", ":")))


def describe(connection: Connection) -> dict[str, Any]:
    """Return {table: its columns, keys, rules, indexes and triggers}, in an order that depends on their names alone."""
    inspector = inspect(connection)
    names = set(inspector.get_table_names()) - {VERSION_TABLE}
    if connection.dialect.name == "postgresql":
        names -= set(connection.scalars(_EXTENSION_TABLES))
    tables = {name: _table(inspector, name) for name in sorted(names)}
    for table, trigger, body in connection.execute(_TRIGGERS[connection.dialect.name]):
        if table in tables:
            tables[table]["triggers"].append([trigger, " ".join(body.split())])
    for table in tables.values():
        table["triggers"].sort()
    return tables


def _table(inspector: Inspector, name: str) -> dict[str, Any]:
    dialect = inspector.dialect
    primary_key = inspector.get_pk_constraint(name)
    return {
        # Columns in their own order: a column's place matters to nobody.
        "columns": sorted(
            [column["name"], column["type"].compile(dialect), column["nullable"], column["default"]]
            for column in inspector.get_columns(name)
        ),
        "primary_key": [primary_key["name"], primary_key["constrained_columns"]],
        "foreign_keys": sorted(
            [key["name"], key["constrained_columns"], key["referred_table"], key["referred_columns"], key["options"]]
            for key in inspector.get_foreign_keys(name)
        ),
        "unique": sorted([rule["name"], rule["column_names"]] for rule in inspector.get_unique_constraints(name)),
        "checks": sorted([rule["name"], rule["sqltext"]] for rule in inspector.get_check_constraints(name)),
        "indexes": sorted(
            [
                index["name"],
                index["column_names"],
                bool(index["unique"]),
                str(index.get("dialect_options", {}).get(f"{dialect.name}_where")),
            ]
            for index in inspector.get_indexes(name)
            if not index.get("duplicates_constraint")
        ),
        "triggers": [],
    }
