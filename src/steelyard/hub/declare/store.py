"""What the hub has of the projects that a document names, as the plan reads it; of revisions only those it wants."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from steelyard.hub.catalog import domain, store
from steelyard.hub.declare.domain import Found, Key, Kind, Wanted
from steelyard.hub.suites import store as suites

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from uuid import UUID

    from sqlalchemy import Connection

    from steelyard.hub.suites.domain import Suite

_OWNED: Mapping[Kind, type[Any]] = {
    "artifact": domain.Artifact, "runtime": domain.Runtime, "identity": domain.EmbeddingIdentity,
}  # fmt: skip


def present_of(connection: Connection, wanted: Mapping[Key, Wanted]) -> dict[Key, Found]:
    """Return everything of the wanted projects that there are."""
    present: dict[Key, Found] = {}
    for slug in [key.path[0] for key in wanted if key.kind == "project"]:
        for project in store.find(connection, domain.Project, slug=slug):
            present[Key("project", (slug,))] = Found(project.id, {"name": project.name})
            present.update(_Reading(connection, slug, project.id, wanted=wanted).all())
    return present


class _Reading:
    """One project's things; each is named by its slug where another refers to it."""

    def __init__(self, connection: Connection, slug: str, project_id: UUID, *, wanted: Mapping[Key, Wanted]) -> None:
        self._connection = connection
        self._wanted = wanted
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
        yield from self._suites()

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

    def _suites(self) -> Iterator[tuple[Key, Found]]:
        for suite in suites.find_suites(self._connection, **self._where):
            yield self._entry("suite", suite.slug, suite.id, vars(suite))
            wanted = self._wanted.get(Key("suite_revision", (self._slug, suite.slug)))
            if wanted:
                yield from self._revision(suite, digest=wanted.given["digest"])

    def _revision(self, suite: Suite, *, digest: str) -> Iterator[tuple[Key, Found]]:
        revision = suites.revision_with(self._connection, suite.id, digest=digest)
        if revision:
            newest = suites.last_number(self._connection, suite.id)
            is_newest = revision.number == newest
            remark = None if is_newest else f"it is revision {revision.number} already, and the newest is {newest}"
            yield self._entry("suite_revision", suite.slug, revision.id, vars(revision), remark=remark)

    def _entry(
        self, kind: Kind, name: str, thing_id: UUID, fields: Mapping[str, Any], **more: Any
    ) -> tuple[Key, Found]:
        self._names[thing_id] = name
        return Key(kind, (self._slug, name)), Found(thing_id, fields, **more)
