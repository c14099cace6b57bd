"""The ways in which what a comparison is between can change, and how each is undone where it can be."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tests.hub_api import deploy

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.comparing import Stage


def _post(stage: Stage, path: str, /, **body: Any) -> None:
    answer = stage.operator.post(path, **body)
    assert answer.status_code == 200, answer.text


def close_route(stage: Stage) -> None:
    _post(stage, f"/routes/{stage.ids['candidate_route_id']}/deactivate", expected_version=1)


def reopen_route(stage: Stage) -> None:
    _post(stage, f"/routes/{stage.ids['candidate_route_id']}/activate", expected_version=2)


def close_binding(stage: Stage) -> None:
    _post(stage, f"/project-bindings/{stage.ids['project_binding_id']}/deactivate", expected_version=2)


def reopen_binding(stage: Stage) -> None:
    _post(stage, f"/project-bindings/{stage.ids['project_binding_id']}/activate", expected_version=3)


def move_pointer(stage: Stage) -> None:
    """Point the binding at a new deployment."""
    present = stage.operator.get(f"/deployments/{stage.ids['current_deployment_id']}").json()
    parts = [{"id": present[f"{name}_id"]} for name in ("artifact", "runtime", "embedding_identity")]
    made = deploy(stage.operator, *parts, slug="elsewhere", stage="production")
    _point(stage, made["id"], version=2)


def move_pointer_back(stage: Stage) -> None:
    _point(stage, stage.ids["current_deployment_id"], version=3)


def _point(stage: Stage, deployment_id: str, *, version: int) -> None:
    path = f"/project-bindings/{stage.ids['project_binding_id']}/current-deployment"
    _post(stage, path, deployment_id=deployment_id, expected_version=version)


def promote_candidate(stage: Stage) -> None:
    """Put the candidate into production, without its route: that leads to no production deployment."""
    close_route(stage)
    _post(stage, f"/deployments/{stage.ids['candidate_deployment_id']}/stage", stage="production", expected_version=1)


def demote_candidate(stage: Stage) -> None:
    path = f"/deployments/{stage.ids['candidate_deployment_id']}/stage"
    _post(stage, path, stage="nonproduction", expected_version=2)
    reopen_route(stage)


def retire_candidate(stage: Stage) -> None:
    close_route(stage)
    _post(stage, f"/deployments/{stage.ids['candidate_deployment_id']}/retire", expected_version=1)


def revoke_client(stage: Stage) -> None:
    _post(stage, f"/service-clients/{stage.ids['consumer_client_id']}/revoke", expected_version=1)


# What an operator may do while a comparison is active, with what undoes it.
CHANGES: dict[str, tuple[Callable[[Stage], None], Callable[[Stage], None] | None]] = {
    "pointer": (move_pointer, move_pointer_back),
    "route": (close_route, reopen_route),
    "binding": (close_binding, reopen_binding),
    "stage": (promote_candidate, demote_candidate),
    "retirement": (retire_candidate, None),
}
