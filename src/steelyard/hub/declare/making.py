"""One step of a plan as calls of the slices' services, with ids for the document's slugs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from steelyard.hub.declare.domain import REFERENCES, FieldChange, Key, Kind, Wanted

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from uuid import UUID

    from steelyard.hub.catalog.service import Catalog
    from steelyard.hub.suites.service import Suites

Fields = dict[str, Any]
_CHANNEL = "stable"


class Maker:
    """Makes and changes things; *ids* has those that are there, and gets those that it makes."""

    def __init__(self, catalog: Catalog, suites: Suites, *, wanted: Mapping[Key, Wanted], ids: dict[Key, UUID]) -> None:
        self._catalog = catalog
        self._wanted = wanted
        self._ids = ids
        # How each kind is made, and the fields with which its service makes it.
        self._makers: Mapping[Kind, tuple[Callable[[Fields], Any], Callable[[Key, Fields], Fields]]] = {
            "project": (catalog.create_project, lambda key, fields: {"slug": key.path[0], **fields}),
            "artifact": (catalog.create_artifact, self._owned),
            "runtime": (catalog.create_runtime, self._owned),
            "identity": (catalog.create_identity, self._owned),
            "deployment": (catalog.create_deployment, self._deployment),
            "binding": (catalog.create_binding, self._binding),
            "route": (catalog.create_route, self._route),
            "client": (catalog.create_client, self._client),
            "suite": (suites.create, self._owned),
            "suite_revision": (lambda fields: suites.import_revision(**fields)[0], self._revision),
        }

    def create(self, key: Key) -> None:
        """Make the thing; raises HubError."""
        fields = dict(self._wanted[key].full)
        create, fields_of = self._makers[key.kind]
        self._ids[key] = create(fields_of(key, fields)).id
        self._finish(key, fields)

    def change(self, key: Key, changes: Sequence[FieldChange], *, version: int) -> None:
        """Change the thing, which has this version, field by field; raises HubError."""
        for count, change in enumerate(changes):
            self._change(key, change.name, change.after, version=version + count)

    def _finish(self, key: Key, fields: Fields) -> None:
        """Bring a thing just made, of version 1, to what its making cannot give it."""
        late = [(name, fields.get(name)) for name in ("current_deployment", "is_active")]
        needed = [(name, value) for name, value in late if value not in (None, True)]
        for count, (name, value) in enumerate(needed):
            self._change(key, name, value, version=1 + count)

    def _change(self, key: Key, name: str, value: Any, *, version: int) -> None:
        thing_id = self._ids[key]
        if name == "current_deployment":
            self._catalog.set_current(thing_id, self._named(key, name), expected_version=version)
        elif name == "stage":
            self._catalog.set_stage(thing_id, value, expected_version=version)
        elif key.kind == "binding":
            self._catalog.activate_binding(thing_id, is_active=value, expected_version=version)
        else:
            self._catalog.activate_route(thing_id, is_active=value, expected_version=version)

    def _owned(self, key: Key, fields: Fields) -> Fields:
        return {"project_id": self._ids[Key("project", key.path[:1])], "slug": key.path[1], **fields}

    def _deployment(self, key: Key, fields: Fields) -> Fields:
        parts = {
            "artifact_id": self._named(key, "artifact"),
            "runtime_id": self._named(key, "runtime"),
            "embedding_identity_id": self._named(key, "identity"),
        }
        rest = {name: value for name, value in fields.items() if name not in REFERENCES["deployment"]}
        return {"slug": key.path[1], **rest, **parts}

    def _binding(self, key: Key, _fields: Fields) -> Fields:
        project_id = self._ids[Key("project", key.path[:1])]
        return {"project_id": project_id, "capability": key.path[1], "channel": _CHANNEL}

    def _route(self, key: Key, _fields: Fields) -> Fields:
        return {
            "project_binding_id": self._ids[Key("binding", key.path[:2])],
            "slug": key.path[2],
            "deployment_id": self._named(key, "deployment"),
        }

    def _client(self, key: Key, fields: Fields) -> Fields:
        return {
            "project_binding_id": self._ids[key.of_same_project("binding", fields["binding"])],
            "slug": key.path[1],
            "name": fields["name"],
            "capabilities": [fields["binding"]],
        }

    def _revision(self, key: Key, fields: Fields) -> Fields:
        return {"suite_id": self._ids[Key("suite", key.path)], **fields}

    def _named(self, key: Key, field: str) -> UUID:
        """Return the id of what a field names by its slug; the plan has made sure that it is there."""
        return self._ids[key.of_same_project(REFERENCES[key.kind][field], self._wanted[key].full[field])]
