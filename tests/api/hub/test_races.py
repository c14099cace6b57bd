"""Real threads change the same things at once, on both databases: one wins, and no rule is broken in between."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest
from tests.hub_api import Asked, deploy, fill

from steelyard.hub.catalog import domain

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

ROUNDS = 8


def at_once(*calls: Callable[[], Any]) -> list[tuple[int, str | None]]:
    """Make the calls in threads that start together, and return their statuses and codes."""
    barrier = threading.Barrier(len(calls))

    def wait_and_call(call: Callable[[], Any]) -> tuple[int, str | None]:
        barrier.wait(10)
        answer = call()
        return answer.status_code, answer.json().get("code")

    with ThreadPoolExecutor(len(calls)) as threads:
        return list(threads.map(wait_and_call, calls))


@pytest.fixture
def two(asked) -> Iterator[tuple[Asked, Asked]]:
    """Give the hub and a second one over the same database, as two processes would be."""
    other = Asked(asked.database)
    yield asked, other
    other.close()


def test_of_sixteen_equal_creates_one_wins(asked, operator):
    answers = at_once(*[partial(operator.post, "/projects", slug="a", name="A")] * 16)
    assert sorted(answers) == [(201, None)] + [(409, "SLUG_TAKEN")] * 15
    assert len(operator.get("/projects").json()["items"]) == 1
    assert len(operator.get("/audit-events", action="project.create").json()["items"]) == 1


def test_of_sixteen_bindings_of_a_project_one_wins_with_one_stable_route(operator):
    project = operator.make("/projects", slug="a", name="A")
    answers = at_once(*[partial(operator.post, "/project-bindings", project_id=project["id"])] * 16)
    assert sorted(answers) == [(201, None)] + [(409, "BINDING_EXISTS")] * 15
    assert len(operator.get("/routes").json()["items"]) == 1


def test_of_two_pointer_switches_one_wins_and_the_other_is_told_the_new_version(two, operator, catalogue):
    other = two[1].holder(operator.secret)
    second = deploy(operator, catalogue.artifact, catalogue.runtime, catalogue.identity, slug="d3", stage="production")
    path = f"/project-bindings/{catalogue.binding['id']}/current-deployment"
    version = 1
    for _ in range(ROUNDS):
        answers = at_once(
            partial(operator.post, path, deployment_id=catalogue.production["id"], expected_version=version),
            partial(other.post, path, deployment_id=second["id"], expected_version=version),
        )
        binding = operator.get(f"/project-bindings/{catalogue.binding['id']}").json()
        moved = binding["version"] - version
        # A switch to where the pointer stands already changes nothing, so that the other one may still win.
        assert moved in (0, 1)
        assert {answer[0] for answer in answers} <= {200, 409}
        assert sum(answer == (409, "VERSION_CONFLICT") for answer in answers) <= 1
        version = binding["version"]
    changes = operator.get("/audit-events", action="project_binding.set_current").json()["items"]
    assert len(changes) == version - 1


def test_a_change_sees_a_thing_only_when_the_one_before_is_committed(two, operator, catalogue, monkeypatch):
    other = two[1].holder(operator.secret)
    second = deploy(operator, catalogue.artifact, catalogue.runtime, catalogue.identity, slug="d3", stage="production")
    path = f"/project-bindings/{catalogue.binding['id']}/current-deployment"
    seen: list[int] = []
    has_second_come = threading.Event()
    real = domain.check_version

    def check(thing, *, expected_version):
        seen.append(thing.version)
        if len(seen) == 1:
            has_second_come.wait(0.5)  # It cannot come: the first one's row is locked, or the whole database is.
        else:
            has_second_come.set()
        real(thing, expected_version=expected_version)

    monkeypatch.setattr(domain, "check_version", check)
    answers = at_once(
        partial(operator.post, path, deployment_id=catalogue.production["id"], expected_version=1),
        partial(other.post, path, deployment_id=second["id"], expected_version=1),
    )
    assert sorted(answers) == [(200, None), (409, "VERSION_CONFLICT")]
    assert seen == [1, 2]


def test_no_binding_ever_points_at_what_is_retired_or_nonproduction(two, operator):
    other = two[1].holder(operator.secret)
    for number in range(ROUNDS):
        made = fill(operator, f"p{number}")
        binding, deployment = made.binding["id"], made.production["id"]
        answers = at_once(
            partial(
                operator.post,
                f"/project-bindings/{binding}/current-deployment",
                deployment_id=deployment,
                expected_version=1,
            ),
            partial(other.post, f"/deployments/{deployment}/retire", expected_version=1),
            partial(other.post, f"/deployments/{deployment}/stage", stage="nonproduction", expected_version=1),
            partial(operator.post, "/routes", project_binding_id=binding, slug="x", deployment_id=deployment),
        )
        assert all(status in (200, 201, 409) for status, _ in answers), answers
        pointed = operator.get(f"/project-bindings/{binding}").json()["current_deployment_id"]
        now = operator.get(f"/deployments/{deployment}").json()
        if pointed is not None:
            assert (now["is_active"], now["stage"]) == (True, "production"), answers
        for route in operator.get("/routes", deployment_id=deployment).json()["items"]:
            assert (now["is_active"], now["stage"]) == (True, "nonproduction"), (route, answers)


def test_no_active_route_ever_leads_to_what_is_retired_or_in_production(two, operator):
    other = two[1].holder(operator.secret)
    for number in range(ROUNDS):
        made = fill(operator, f"p{number}")
        binding, deployment = made.binding["id"], made.candidate["id"]
        answers = at_once(
            partial(operator.post, "/routes", project_binding_id=binding, slug="x", deployment_id=deployment),
            partial(other.post, f"/deployments/{deployment}/retire", expected_version=1),
            partial(other.post, f"/deployments/{deployment}/stage", stage="production", expected_version=1),
            partial(
                operator.post,
                f"/project-bindings/{binding}/current-deployment",
                deployment_id=deployment,
                expected_version=1,
            ),
        )
        assert all(status in (200, 201, 409) for status, _ in answers), answers
        now = operator.get(f"/deployments/{deployment}").json()
        for route in operator.get("/routes", deployment_id=deployment).json()["items"]:
            assert (now["is_active"], now["stage"]) == (True, "nonproduction"), (route, answers)


def test_of_the_last_two_operators_one_stays(two, operator):
    other = two[1].holder(operator.secret)
    for _ in range(ROUNDS):
        operator.make("/credentials", role="operator", name="second")
        ids = [item["id"] for item in operator.get("/credentials", role="operator").json()["items"]]
        live = [
            item["id"]
            for item in operator.get("/credentials", role="operator").json()["items"]
            if item["revoked_at"] is None
        ]
        assert len(live) == 2
        answers = at_once(
            partial(operator.post, f"/credentials/{live[0]}/revoke"),
            partial(other.post, f"/credentials/{live[1]}/revoke"),
        )
        # Whoever loses is refused by the rule, or by its own credential's end before it was let in.
        assert sorted(status for status, _ in answers) in ([200, 401], [200, 409])
        operator = two[0].holder(_survivor(two[0], ids))
        other = two[1].holder(operator.secret)


def _survivor(asked: Asked, ids: list[str]) -> str:
    """Return a new operator's secret, after making sure that one of *ids* is live, and then end that one."""
    fresh = asked.caller("operator")
    live = [item for item in fresh.get("/credentials", role="operator").json()["items"] if item["revoked_at"] is None]
    assert len([item for item in live if item["id"] in ids]) == 1
    for item in live:
        if item["id"] in ids:
            fresh.post(f"/credentials/{item['id']}/revoke")
    return fresh.secret


def test_a_client_never_has_three_live_secrets(two, operator, catalogue):
    other = two[1].holder(operator.secret)
    path = f"/service-clients/{catalogue.client['id']}/credentials"
    answers = at_once(*[partial(operator.post, path, name="x"), partial(other.post, path, name="y")] * 4)
    assert sorted(answers) == [(201, None)] * 2 + [(409, "NOT_ELIGIBLE")] * 6


def test_a_client_that_is_revoked_meanwhile_has_no_live_secret(two, operator, catalogue):
    other = two[1].holder(operator.secret)
    answers = at_once(
        partial(operator.post, f"/service-clients/{catalogue.client['id']}/credentials", name="x"),
        partial(other.post, f"/service-clients/{catalogue.client['id']}/revoke", expected_version=1),
    )
    assert {status for status, _ in answers} <= {200, 201, 409}
    again = operator.post(f"/service-clients/{catalogue.client['id']}/credentials", name="z")
    assert again.status_code == 409
