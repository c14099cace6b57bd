"""What the hub has of the projects that a document names, as the plan reads it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from steelyard.hub.catalog import domain, store
from steelyard.hub.declare.domain import Found, Key, Kind
from steelyard.hub.suites import store as suites

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from uuid import UUID

    from sqlalchemy import Connection

_OWNED: Mapping[Kind, type[Any]] = {
    "artifact": domain.Artifact, "runtime": domain.Runtime, "identity": domain.EmbeddingIdentity,
}  # fmt: skip


def present_of(connection: Connection, projects: Iterable[str]) -> dict[Key, Found]:
    """Return everything of the projects with these slugs that there are."""
    present: dict[Key, Found] = {}
    for slug in projects:
        for project in store.find(connection, domain.Project, slug=slug):
            present[Key("project", (slug,))] = Found(project.id, {"name": project.name})
            present.update(_Reading(connection, slug, project.id).all())
    return present


class _Reading:
    """One project's things; each is named by its slug where another refers to it."""

    def __init__(self, connection: Connection, slug: str, project_id: UUID) -> None:
        self._connection = connection
        self._slug = slug
        self._where = {"project_id": project_id}
        self._names: dict[UUID | None, str | None] = {None: None}

    def all(self) -> Iterator[tuple[Key, Found]]:
        for kind, owned in _OWNED.items():
            for thing in store.find(self._connection, owned, **self._where):
                yield self._entry(kind, thing.slug, thing.id, vars(thing))
        yield from self._deployments()
        yield from self._bindings()
        yield from self._clients()
        for suite in suites.find_suites(self._connection, **self._where):
            yield self._entry("suite", suite.slug, suite.id, vars(suite))

    def _deployments(self) -> Iterator[tuple[Key, Found]]:
        for thing in store.find(self._connection, domain.Deployment, **self._where):
            fields = {
                **vars(thing),
                "artifact": self._names[thing.artifact_id],
                "runtime": self._names[thing.runtime_id],
                "identity": self._names[thing.embedding_identity_id],
            }
            ended_by = None if thing.is_active else "retired"
            yield self._entry("deployment", thing.slug, thing.id, fields, version=thing.version, ended_by=ended_by)

    def _bindings(self) -> Iterator[tuple[Key, Found]]:
        for thing in store.find(self._connection, domain.ProjectBinding, **self._where):
            fields = {"is_active": thing.is_active, "current_deployment": self._names[thing.current_deployment_id]}
            yield self._entry("binding", thing.capability, thing.id, fields, version=thing.version)
            yield from self._routes(thing)

    def _routes(self, binding: domain.ProjectBinding) -> Iterator[tuple[Key, Found]]:
        for thing in store.find(self._connection, domain.Route, project_binding_id=binding.id):
            fields = {"is_active": thing.is_active, "deployment": self._names[thing.deployment_id]}
            key = Key("route", (self._slug, binding.capability, thing.slug))
            yield key, Found(thing.id, fields, version=thing.version)

    def _clients(self) -> Iterator[tuple[Key, Found]]:
        for thing in store.find(self._connection, domain.ServiceClient, **self._where):
            fields = {"name": thing.name, "binding": self._names[thing.project_binding_id]}
            ended_by = None if thing.is_active else "revoked"
            yield self._entry("client", thing.slug, thing.id, fields, version=thing.version, ended_by=ended_by)

    def _entry(
        self, kind: Kind, name: str, thing_id: UUID, fields: Mapping[str, Any], **more: Any
    ) -> tuple[Key, Found]:
        self._names[thing_id] = name
        return Key(kind, (self._slug, name)), Found(thing_id, fields, **more)
