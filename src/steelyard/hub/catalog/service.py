"""Changes to the catalogue: each checks the rules, writes the row and its audit event, inside the caller's transaction.

The caller begins and commits; nothing here does.
"""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from steelyard.hub.audit import store as audit
from steelyard.hub.audit.domain import Change
from steelyard.hub.catalog import domain, store
from steelyard.hub.errors import BrokenRule, NotEligible

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime
    from uuid import UUID

    from sqlalchemy import Connection

    from steelyard.hub.principal import Actor

T = TypeVar("T", bound=domain.Thing)
Versioned = TypeVar("Versioned", domain.ProjectBinding, domain.ServiceClient, domain.Deployment, domain.Route)


@dataclass(frozen=True)
class Catalog:
    """The catalogue inside one transaction, changed by one actor at one time."""

    connection: Connection
    actor: Actor
    now: datetime

    def create_project(self, fields: Mapping[str, Any]) -> domain.Project:
        """Add a project; raises SlugTaken."""
        project = domain.Project(id=uuid.uuid4(), created_at=self.now, **fields)
        return self._create("project.create", project, project_id=project.id)

    def create_binding(self, fields: Mapping[str, Any]) -> domain.ProjectBinding:
        """Add a project's binding and its stable route; raises UnknownReference or SlugTaken."""
        project = store.refer(self.connection, domain.Project, fields["project_id"])
        binding = domain.ProjectBinding(
            id=uuid.uuid4(),
            created_at=self.now,
            is_active=True,
            current_deployment_id=None,
            version=1,
            **fields,
        )
        self._create("project_binding.create", binding, project_id=project.id)
        route = domain.Route(
            id=uuid.uuid4(),
            project_binding_id=binding.id,
            slug=domain.STABLE,
            kind="stable",
            deployment_id=None,
            is_active=True,
            version=1,
            created_at=self.now,
        )
        self._create("route.create", route, project_id=project.id)
        return binding

    def create_client(self, fields: Mapping[str, Any]) -> domain.ServiceClient:
        """Add a program of a binding's project; raises UnknownReference, BrokenRule or SlugTaken."""
        binding = store.refer(self.connection, domain.ProjectBinding, fields["project_binding_id"])
        if set(fields["capabilities"]) != {binding.capability}:
            raise BrokenRule(f"The client's binding is for {binding.capability}, so that is its one capability")
        client = domain.ServiceClient(
            id=uuid.uuid4(),
            project_id=binding.project_id,
            is_active=True,
            version=1,
            created_at=self.now,
            **fields,
        )
        return self._create("service_client.create", client, project_id=binding.project_id)

    def create_artifact(self, fields: Mapping[str, Any]) -> domain.Artifact:
        """Add an artifact; raises UnknownReference or SlugTaken."""
        return self._create_owned("artifact.create", domain.Artifact, fields)

    def create_runtime(self, fields: Mapping[str, Any]) -> domain.Runtime:
        """Add a runtime; raises UnknownReference or SlugTaken."""
        overlong = fields["on_overlong"] or domain.OVERLONG_OF[fields["kind"]]
        return self._create_owned("runtime.create", domain.Runtime, {**fields, "on_overlong": overlong})

    def create_identity(self, fields: Mapping[str, Any]) -> domain.EmbeddingIdentity:
        """Add an embedding identity; raises UnknownReference or SlugTaken."""
        return self._create_owned("embedding_identity.create", domain.EmbeddingIdentity, fields)

    def create_deployment(self, fields: Mapping[str, Any]) -> domain.Deployment:
        """Add a deployment of an artifact, a runtime and an identity of one project."""
        artifact = store.refer(self.connection, domain.Artifact, fields["artifact_id"])
        runtime = store.refer(self.connection, domain.Runtime, fields["runtime_id"])
        identity = store.refer(self.connection, domain.EmbeddingIdentity, fields["embedding_identity_id"])
        domain.check_same_project(runtime, project_id=artifact.project_id)
        domain.check_same_project(identity, project_id=artifact.project_id)
        deployment = domain.Deployment(
            id=uuid.uuid4(),
            project_id=artifact.project_id,
            is_active=True,
            version=1,
            created_at=self.now,
            **{**fields, "served_model": fields["served_model"] or identity.model},
        )
        return self._create("deployment.create", deployment, project_id=artifact.project_id)

    def create_route(self, fields: Mapping[str, Any]) -> domain.Route:
        """Add an experiment route from a binding to a nonproduction deployment."""
        domain.check_experiment_slug(fields["slug"])
        binding = store.refer(self.connection, domain.ProjectBinding, fields["project_binding_id"])
        deployment = store.refer(self.connection, domain.Deployment, fields["deployment_id"], lock=True)
        domain.check_can_be_tried(deployment, binding=binding)
        route = domain.Route(
            id=uuid.uuid4(), kind="experiment", is_active=True, version=1, created_at=self.now, **fields
        )
        return self._create("route.create", route, project_id=binding.project_id)

    def set_current(self, binding_id: UUID, deployment_id: UUID, *, expected_version: int) -> domain.ProjectBinding:
        """Point a binding at another production deployment; nothing else ever does."""
        binding = self._locked(domain.ProjectBinding, binding_id, expected_version)
        deployment = store.refer(self.connection, domain.Deployment, deployment_id, lock=True)
        domain.check_can_be_current(deployment, binding=binding)
        return self._change("project_binding.set_current", binding, current_deployment_id=deployment.id)

    def activate_binding(self, binding_id: UUID, *, is_active: bool, expected_version: int) -> domain.ProjectBinding:
        """Open or close a binding; a closed one carries no traffic."""
        binding = self._locked(domain.ProjectBinding, binding_id, expected_version)
        action = "project_binding.activate" if is_active else "project_binding.deactivate"
        return self._change(action, binding, is_active=is_active)

    def activate_route(self, route_id: UUID, *, is_active: bool, expected_version: int) -> domain.Route:
        """Open or close an experiment route; the stable one is as open as its binding."""
        route = self._locked(domain.Route, route_id, expected_version)
        if route.deployment_id is None:
            raise NotEligible("The stable route is as open as its binding: activate or deactivate the binding")
        if is_active:
            binding = store.get(self.connection, domain.ProjectBinding, route.project_binding_id)
            deployment = store.get(self.connection, domain.Deployment, route.deployment_id, lock=True)
            domain.check_can_be_tried(deployment, binding=binding)
        action = "route.activate" if is_active else "route.deactivate"
        return self._change(action, route, is_active=is_active)

    def revoke_client(self, client_id: UUID, *, expected_version: int) -> domain.ServiceClient:
        """End a client for good; none of its credentials works from then on."""
        client = self._locked(domain.ServiceClient, client_id, expected_version)
        return self._change("service_client.revoke", client, is_active=False)

    def retire(self, deployment_id: UUID, *, expected_version: int) -> domain.Deployment:
        """End a deployment for good; raises NotEligible while traffic can reach it."""
        deployment = self._unused(deployment_id, expected_version)
        return self._change("deployment.retire", deployment, is_active=False)

    def set_stage(self, deployment_id: UUID, stage: domain.Stage, *, expected_version: int) -> domain.Deployment:
        """Move a deployment that no traffic reaches between production and nonproduction."""
        deployment = self._unused(deployment_id, expected_version)
        domain.check_can_be_staged(deployment)
        return self._change("deployment.set_stage", deployment, stage=stage)

    def _locked(self, kind: type[Versioned], thing_id: UUID, expected_version: int) -> Versioned:
        thing = store.get(self.connection, kind, thing_id, lock=True)
        domain.check_version(thing, expected_version=expected_version)
        return thing

    def _unused(self, deployment_id: UUID, expected_version: int) -> domain.Deployment:
        deployment = self._locked(domain.Deployment, deployment_id, expected_version)
        domain.check_is_unused(
            deployment,
            current_of=store.find(self.connection, domain.ProjectBinding, current_deployment_id=deployment_id),
            routes=store.find(self.connection, domain.Route, deployment_id=deployment_id),
        )
        return deployment

    def _create_owned(self, action: str, kind: type[T], fields: Mapping[str, Any]) -> T:
        store.refer(self.connection, domain.Project, fields["project_id"])
        return self._create(action, kind(id=uuid.uuid4(), created_at=self.now, **fields), fields["project_id"])

    def _create(self, action: str, thing: T, project_id: UUID) -> T:
        store.insert(self.connection, thing)
        self._record(Change(action=action, after=thing, project_id=project_id))
        return thing

    def _change(self, action: str, thing: Versioned, **changes: object) -> Versioned:
        """Write *changes* and their event; a thing that is already so stays as it was."""
        if all(getattr(thing, name) == value for name, value in changes.items()):
            return thing
        changed = store.change(self.connection, thing, **changes)
        self._record(Change(action=action, before=thing, after=changed, project_id=self._project_of(thing)))
        return changed

    def _record(self, change: Change) -> None:
        audit.record(self.connection, change, actor=self.actor, at=self.now)

    def _project_of(self, thing: domain.Changeable) -> UUID:
        if isinstance(thing, domain.Route):
            return store.get(self.connection, domain.ProjectBinding, thing.project_binding_id).project_id
        return thing.project_id
