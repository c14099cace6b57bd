"""The catalogue's rows. Every function works inside the caller's transaction."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar

from sqlalchemy import Table, select, update

from steelyard.hub.catalog import domain
from steelyard.hub.db import tables
from steelyard.hub.db.errors import UniqueViolated
from steelyard.hub.db.locks import locked
from steelyard.hub.errors import BindingExists, Conflict, SlugTaken, UnknownReference, UnknownThing

if TYPE_CHECKING:
    from uuid import UUID

    from sqlalchemy import Connection

_TABLE_OF: dict[type[Any], Table] = {
    domain.Project: tables.projects,
    domain.ProjectBinding: tables.project_bindings,
    domain.ServiceClient: tables.service_clients,
    domain.Artifact: tables.artifacts,
    domain.Runtime: tables.runtimes,
    domain.EmbeddingIdentity: tables.embedding_identities,
    domain.Deployment: tables.deployments,
    domain.Route: tables.routes,
}
# What a second thing of the same unique name is; most have a slug.
_TAKEN: dict[type[Any], type[Conflict]] = {domain.ProjectBinding: BindingExists}
_NAME_OF: dict[type[Any], str] = {
    domain.Project: "project",
    domain.ProjectBinding: "project binding",
    domain.ServiceClient: "service client",
    domain.Artifact: "artifact",
    domain.Runtime: "runtime",
    domain.EmbeddingIdentity: "embedding identity",
    domain.Deployment: "deployment",
    domain.Route: "route",
}
T = TypeVar("T", bound=domain.Thing)
Versioned = TypeVar("Versioned", domain.ProjectBinding, domain.ServiceClient, domain.Deployment, domain.Route)


def insert(connection: Connection, thing: T) -> T:
    """Add *thing*; raises SlugTaken, or BindingExists, where its unique name is taken."""
    try:
        with connection.begin_nested():
            connection.execute(_TABLE_OF[type(thing)].insert().values(**vars(thing)))
    except UniqueViolated as error:
        raise _TAKEN.get(type(thing), SlugTaken) from error
    return thing


def get(connection: Connection, kind: type[T], thing_id: UUID, *, lock: bool = False) -> T:
    """Return the thing with this id, its row locked where asked; raises UnknownThing."""
    table = _TABLE_OF[kind]
    query = select(table).where(table.c.id == thing_id)
    row = connection.execute(locked(query) if lock else query).first()
    if row is None:
        raise UnknownThing(f"No {_NAME_OF[kind]} has this id")
    return kind(**row._mapping)


def refer(connection: Connection, kind: type[T], thing_id: UUID, *, lock: bool = False) -> T:
    """Return the thing that another one names; raises UnknownReference."""
    try:
        return get(connection, kind, thing_id, lock=lock)
    except UnknownThing as error:
        raise UnknownReference(f"No {_NAME_OF[kind]} has the id that was sent for it") from error


def find(connection: Connection, kind: type[T], **where: object) -> list[T]:
    """Return every thing whose columns have these values, in the order in which they were made."""
    table = _TABLE_OF[kind]
    query = select(table).filter_by(**where).order_by(table.c.created_at, table.c.id)
    return [kind(**row._mapping) for row in connection.execute(query)]


def page(connection: Connection, kind: type[T], *, limit: int, offset: int, **where: object) -> list[T]:
    """Return *limit* things after *offset*, newest first, and one more where there is one."""
    table = _TABLE_OF[kind]
    query = select(table).filter_by(**where).order_by(table.c.created_at.desc(), table.c.id.desc())
    rows = connection.execute(query.limit(limit + 1).offset(offset))
    return [kind(**row._mapping) for row in rows]


def change(connection: Connection, thing: Versioned, **changes: Any) -> Versioned:
    """Write *changes* to a thing whose row is locked, and count its version up."""
    changed = replace(thing, **changes, version=thing.version + 1)
    fields = {name: getattr(changed, name) for name in (*changes, "version")}
    table = _TABLE_OF[type(thing)]
    connection.execute(update(table).where(table.c.id == thing.id).values(**fields))
    return changed
