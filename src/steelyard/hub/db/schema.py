"""What a database's tables are, in plain values, and the fingerprint of that.

It is reflected, not remembered: whoever changes a column, a rule, an index or a trigger by hand changes the
fingerprint. Rows, views and what extensions of PostgreSQL bring are no part of it.
"""

from __future__ import annotations

import functools
import json
import re
from typing import TYPE_CHECKING, Any

from sqlalchemy import inspect, text

from steelyard.hall.digests import sha256_of_text

if TYPE_CHECKING:
    from collections.abc import Callable

    from sqlalchemy import Connection, Dialect

VERSION_TABLE = "alembic_version"
# Tables of PostgreSQL's own schema that an extension owns, such as PostGIS's.
_EXTENSION_TABLES = text(
    "SELECT c.relname FROM pg_depend d JOIN pg_class c ON c.oid = d.objid "
    "WHERE d.classid = 'pg_class'::regclass AND d.deptype = 'e' AND c.relnamespace = current_schema()::regnamespace"
)
# PostgreSQL writes a rule's casts in other places once the rule has been dumped and loaded.
_CASTS = re.compile(r"::(character varying|text)(\[\])?")
_TRIGGERS = {
    "sqlite": text("SELECT tbl_name, name, sql FROM sqlite_schema WHERE type = 'trigger'"),
    "postgresql": text(
        "SELECT c.relname, t.tgname, pg_get_triggerdef(t.oid) FROM pg_trigger t JOIN pg_class c ON c.oid = t.tgrelid "
        "WHERE NOT t.tgisinternal AND c.relnamespace = current_schema()::regnamespace"
    ),
}


def fingerprint(connection: Connection) -> str:
    """Return the SHA-256 of `describe`'s answer as canonical JSON."""
    return _sha256_of(describe(connection))


def is_fingerprint(connection: Connection, recorded: str) -> bool:
    """Tell whether *recorded* is the fingerprint of the schema, by this version or by the first."""
    found = describe(connection)
    return recorded == _sha256_of(found) or recorded == _sha256_of(_as_first(connection, found))


def _as_first(connection: Connection, found: dict[str, Any]) -> dict[str, Any]:
    """Return a description as the hub's first version made it: with the casts that PostgreSQL writes."""
    checks = _each(inspect(connection).get_multi_check_constraints(), lambda rule: [rule["name"], rule["sqltext"]])
    return {name: {**parts, "checks": checks.get(name, [])} for name, parts in found.items()}


def _sha256_of(description: dict[str, Any]) -> str:
    return sha256_of_text(json.dumps(description, sort_keys=True, separators=(",", ":")))


def describe(connection: Connection) -> dict[str, Any]:
    """Return {table: its columns, keys, rules, indexes and triggers}, in an order that depends on their names alone."""
    inspector = inspect(connection)
    names = set(inspector.get_table_names()) - {VERSION_TABLE}
    if connection.dialect.name == "postgresql":
        names -= set(connection.scalars(_EXTENSION_TABLES))
    # Asked for all tables at once: a question for each table would take PostgreSQL a hundred.
    parts = {
        "columns": _each(inspector.get_multi_columns(), functools.partial(_column, connection.dialect)),
        "primary_key": {table: _primary_key(key) for (_, table), key in inspector.get_multi_pk_constraint().items()},
        "foreign_keys": _each(inspector.get_multi_foreign_keys(), _foreign_key),
        "unique": _each(inspector.get_multi_unique_constraints(), lambda rule: [rule["name"], rule["column_names"]]),
        "checks": _each(inspector.get_multi_check_constraints(), _check),
        "indexes": _each(inspector.get_multi_indexes(), functools.partial(_index, connection.dialect.name)),
        "triggers": _triggers(connection),
    }
    return {name: {part: found.get(name, []) for part, found in parts.items()} for name in sorted(names)}


def _each(found: Any, describe_one: Callable[[Any], list[Any] | None]) -> dict[str, list[Any]]:
    """Return what there is by its table, sorted: in which order it was made matters to nobody."""
    return {
        table: sorted(one for item in items or () if (one := describe_one(item)) is not None)
        for (_, table), items in found.items()
    }


def _column(dialect: Dialect, column: Any) -> list[Any]:
    return [column["name"], column["type"].compile(dialect), column["nullable"], column["default"]]


def _primary_key(key: Any) -> list[Any]:
    return [key["name"], key["constrained_columns"]]


def _foreign_key(key: Any) -> list[Any]:
    return [key["name"], key["constrained_columns"], key["referred_table"], key["referred_columns"], key["options"]]


def _check(rule: Any) -> list[Any]:
    return [rule["name"], _CASTS.sub("", rule["sqltext"])]


def _index(dialect_name: str, index: Any) -> list[Any] | None:
    if index.get("duplicates_constraint"):
        return None
    condition = str(index.get("dialect_options", {}).get(f"{dialect_name}_where"))
    columns = index.get("expressions") or index["column_names"]
    return [index["name"], columns, bool(index["unique"]), condition]


def _triggers(connection: Connection) -> dict[str, list[Any]]:
    found: dict[str, list[Any]] = {}
    for table, name, body in connection.execute(_TRIGGERS[connection.dialect.name]):
        found.setdefault(table, []).append([name, " ".join(body.split())])
    return {table: sorted(triggers) for table, triggers in found.items()}
