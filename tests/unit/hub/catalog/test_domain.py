"""The catalogue's rules."""

from __future__ import annotations

from dataclasses import replace
from typing import get_args
from uuid import UUID

import pytest

from steelyard.hub.catalog import domain
from steelyard.hub.catalog.examples import ARTIFACT, BINDING, CLIENT, DEPLOYMENT, IDENTITY, ROUTE, RUNTIME
from steelyard.hub.errors import BrokenRule, NotEligible, VersionConflict

ELSEWHERE = UUID(int=99)
PRODUCTION = replace(DEPLOYMENT, stage="production")


@pytest.mark.parametrize("thing", [ARTIFACT, RUNTIME, IDENTITY, DEPLOYMENT])
def test_a_thing_belongs_to_its_own_project_only(thing):
    domain.check_same_project(thing, project_id=thing.project_id)
    with pytest.raises(BrokenRule, match="another project"):
        domain.check_same_project(thing, project_id=ELSEWHERE)


def test_an_active_production_deployment_can_be_current():
    domain.check_can_be_current(PRODUCTION, binding=BINDING)


def test_an_active_nonproduction_deployment_can_be_tried():
    domain.check_can_be_tried(DEPLOYMENT, binding=BINDING)


@pytest.mark.parametrize(
    ("change", "error"),
    [
        ({"project_id": ELSEWHERE}, BrokenRule),
        ({"capability": "semantic.decision@1"}, BrokenRule),
        ({"is_active": False}, NotEligible),
        ({"stage": "nonproduction"}, NotEligible),
    ],
)
def test_what_cannot_be_current(change, error):
    with pytest.raises(error):
        domain.check_can_be_current(replace(PRODUCTION, **change), binding=BINDING)


@pytest.mark.parametrize(
    ("change", "error"),
    [
        ({"project_id": ELSEWHERE}, BrokenRule),
        ({"capability": "semantic.decision@1"}, BrokenRule),
        ({"is_active": False}, NotEligible),
        ({"stage": "production"}, NotEligible),
    ],
)
def test_what_cannot_be_tried(change, error):
    with pytest.raises(error):
        domain.check_can_be_tried(replace(DEPLOYMENT, **change), binding=BINDING)


def test_a_deployment_is_unused_where_no_binding_points_and_no_active_route_leads():
    domain.check_is_unused(DEPLOYMENT, current_of=[], routes=[replace(ROUTE, is_active=False)])


@pytest.mark.parametrize(("current_of", "routes"), [([BINDING], []), ([], [ROUTE])])
def test_a_deployment_that_traffic_reaches_is_used(current_of, routes):
    with pytest.raises(NotEligible, match=DEPLOYMENT.slug):
        domain.check_is_unused(DEPLOYMENT, current_of=current_of, routes=routes)


def test_a_retired_deployment_keeps_its_stage():
    domain.check_can_be_staged(DEPLOYMENT)
    with pytest.raises(NotEligible, match="retired"):
        domain.check_can_be_staged(replace(DEPLOYMENT, is_active=False))


@pytest.mark.parametrize("thing", [BINDING, CLIENT, DEPLOYMENT, ROUTE], ids=lambda thing: type(thing).__name__)
def test_a_change_needs_the_present_version(thing):
    changed = replace(thing, version=7)
    domain.check_version(changed, expected_version=7)
    for other in (6, 8):
        with pytest.raises(VersionConflict) as refused:
            domain.check_version(changed, expected_version=other)
        assert refused.value.current_version == 7


def test_no_experiment_may_be_called_stable():
    domain.check_experiment_slug("stable-2")
    with pytest.raises(BrokenRule):
        domain.check_experiment_slug("stable")


def test_every_kind_of_server_has_its_way_with_overlong_inputs():
    assert set(domain.OVERLONG_OF) == set(get_args(domain.RuntimeKind))
    assert set(domain.OVERLONG_OF.values()) <= set(get_args(domain.Overlong))
