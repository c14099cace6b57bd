from __future__ import annotations

import uuid
from typing import Any

import pytest
from tests.unit.hub.gateway.makers import deployment, lead

from steelyard.hub.gateway.domain.errors import CallerForbidden, ModelNotFound
from steelyard.hub.gateway.domain.targets import CAPABILITY, Target, require_client, require_target, slug_of
from steelyard.hub.principal import Principal

CLIENT: dict[str, Any] = {
    "role": "client", "credential_id": uuid.uuid4(), "public_id": "p", "service_client_id": uuid.uuid4(),
    "project_binding_id": uuid.uuid4(), "capabilities": frozenset({CAPABILITY}),
}  # fmt: skip


def test_a_client_with_the_capability_may_call():
    client = require_client(Principal(**CLIENT))
    assert client.service_client_id == CLIENT["service_client_id"]
    assert client.project_binding_id == CLIENT["project_binding_id"]
    assert client.credential_id == CLIENT["credential_id"]


@pytest.mark.parametrize("role", ["viewer", "operator"])
def test_other_roles_may_not_call(role):
    with pytest.raises(CallerForbidden, match=f"role is {role}"):
        require_client(Principal(role=role, credential_id=uuid.uuid4(), public_id="p"))


@pytest.mark.parametrize(
    "change", [{"service_client_id": None}, {"project_binding_id": None}, {"capabilities": frozenset()}]
)
def test_a_client_without_its_parts_may_not_call(change):
    with pytest.raises(CallerForbidden):
        require_client(Principal(**{**CLIENT, **change}))


def test_a_lead_to_an_active_deployment_is_a_target():
    route_id, leads_to = uuid.uuid4(), deployment()
    found = lead(route_id=route_id, deployment=leads_to)
    assert require_target(found, model="next") == Target(route_id=route_id, deployment=leads_to)


@pytest.mark.parametrize(
    ("found", "words"),
    [
        (None, "binding is not active"),
        (lead(is_binding_active=False), "binding is not active"),
        (lead(route_id=None, is_route_active=None, deployment=None), "is none of your routes"),
        (lead(is_route_active=False), "is a route that is not active"),
        (lead(deployment=None), "leads to no deployment yet"),
        (lead(deployment=deployment(is_active=False)), "leads to the deployment old, which is retired"),
        (lead(deployment=deployment(capability="semantic.decision@1")), "which embeds nothing"),
    ],
)
def test_a_lead_that_ends_early_says_where(found, words):
    with pytest.raises(ModelNotFound, match=f"The model 'next' .*{words}"):
        require_target(found, model="next")


@pytest.mark.parametrize(
    ("model", "slug"),
    [("stable", "stable"), ("a.b-1", "a.b-1"), ("Stable", ""), ("a\x00", ""), ("a" * 65, ""), ("a/b", ""), ("", "")],
)
def test_a_model_that_no_route_could_be_called_is_not_looked_for(model, slug):
    assert slug_of(model) == slug
