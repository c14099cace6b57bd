"""The hub's OpenAPI document against a running hub: schemathesis makes the requests and checks the answers.

One test asks every operation alone; the other follows the document's links from what was made to what can be done with
it, so that it walks deep into the catalogue instead of asking for ids that nothing has.
"""

from __future__ import annotations

import itertools
import random
import re
from collections import Counter
from contextlib import suppress
from typing import TYPE_CHECKING, Any, ClassVar

import httpx2
import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, settings
from hypothesis.errors import FlakyStrategyDefinition
from schemathesis import GenerationMode
from schemathesis.config import (
    ChecksConfig,
    GenerationConfig,
    PositiveDataAcceptanceConfig,
    ProjectConfig,
    ProjectsConfig,
)
from tests.hub_api import fill
from tests.hub_process import RunningHub, hub_over

from steelyard.hub.app import build_document

if TYPE_CHECKING:
    from collections.abc import Iterator

# No schema can say that a slug is free, that an id is a thing's of the same project, that a text can be printed, or
# that only a service client may embed.
_CHECKS = ChecksConfig(
    positive_data_acceptance=PositiveDataAcceptanceConfig(expected_statuses=["2xx", "403", "404", "409", "422"])
)
schema = schemathesis.openapi.from_dict(
    build_document(), config=schemathesis.Config(projects=ProjectsConfig(default=ProjectConfig(checks=_CHECKS)))
)
# What a walk must have done, each at least once, to have been anywhere.
REACHED = {
    ("create_project_binding", 201), ("create_service_client", 201), ("create_deployment", 201),
    ("create_route", 201), ("set_current_deployment", 200), ("set_deployment_stage", 200),
    ("retire_deployment", 200), ("retire_deployment", 409), ("activate_route", 200), ("deactivate_route", 200),
    ("deactivate_project_binding", 200), ("import_revision", 201), ("issue_client_credential", 201),
    ("issue_client_credential", 409), ("revoke_credential", 200), ("revoke_service_client", 200),
    ("get_deployment", 200), ("get_revision", 200),
}  # fmt: skip


@pytest.fixture(scope="module")
def hub(tmp_path_factory) -> Iterator[RunningHub]:
    with hub_over(f"sqlite:///{tmp_path_factory.mktemp('fuzz') / 'hub.db'}") as hub:
        yield hub
        assert "Traceback" not in hub.log.text


@pytest.fixture
def hub_on_postgresql(postgresql_databases) -> Iterator[RunningHub]:
    with postgresql_databases.fresh() as url, hub_over(url) as hub:
        yield hub
        assert "Traceback" not in hub.log.text


def ask(hub: RunningHub, case: schemathesis.Case) -> None:
    case.call_and_validate(base_url=hub.url, headers={"Authorization": f"Bearer {hub.secret}"})


@schema.parametrize()
@settings(max_examples=8, suppress_health_check=list(HealthCheck))
def test_every_operation_does_what_its_document_says(hub: RunningHub, case: schemathesis.Case) -> None:
    ask(hub, case)


@pytest.mark.slow
@schema.parametrize()
@settings(max_examples=200, suppress_health_check=list(HealthCheck))
def test_every_operation_does_what_its_document_says_for_long(hub: RunningHub, case: schemathesis.Case) -> None:
    ask(hub, case)


_WALKS_A_RUN = 25
_NUMBERS = itertools.count()
_SLUG = re.compile(r"[a-z0-9]([a-z0-9.-]{0,62}[a-z0-9])?")
FIELD_OF = {
    "projects": "project_id", "project-bindings": "project_binding_id", "service-clients": "service_client_id",
    "artifacts": "artifact_id", "runtimes": "runtime_id", "embedding-identities": "embedding_identity_id",
    "deployments": "deployment_id", "routes": "route_id", "suites": "suite_id",
}  # fmt: skip


class Known:
    """The things that one walk has seen, by the name of the field that refers to them."""

    def __init__(self) -> None:
        self._things: dict[str, dict[str, Any]] = {}
        self._chance = random.Random(1)

    def see(self, path: str, thing: Any) -> None:
        """Remember a thing as it was answered."""
        kind = path.removeprefix("/api/v1/").partition("/")[0]
        if isinstance(thing, dict) and "id" in thing and kind in FIELD_OF:
            self._things.setdefault(FIELD_OF[kind], {})[thing["id"]] = thing

    def place(self, path: str, parameters: dict[str, Any]) -> None:
        """Mostly, put the id of a known thing into a path to which no link led."""
        field = FIELD_OF.get(path.removeprefix("/api/v1/").partition("/")[0])
        known = self._things.get(str(field), {})
        if known and parameters.get("thing_id") not in known and self._chance.random() < 0.9:
            parameters["thing_id"] = self._chance.choice(list(known))

    def complete(self, body: dict[str, Any], *, thing_id: str) -> None:
        """Mostly, put ids of known things where a link gave none, and the present version where one is asked for.

        A link leads from one answer, and a deployment needs three.
        """
        if self._chance.random() < 0.1:
            return
        for name in set(body) & set(FIELD_OF.values()) & set(self._things):
            body[name] = self._chance.choice(list(self._things[name]))
        if _SLUG.fullmatch(str(body.get("slug"))):  # Or a second run of the same walk would find it taken.
            body["slug"] = f"walk-{next(_NUMBERS)}"
        versions = [things[thing_id].get("version") for things in self._things.values() if thing_id in things]
        if "expected_version" in body and versions:
            body["expected_version"] = versions[0]


# Lists lead nowhere, and a walk sends only what the document allows: the other test asks and sends everything.
_walked = schemathesis.openapi.from_dict(
    build_document(),
    config=schemathesis.Config(
        projects=ProjectsConfig(
            default=ProjectConfig(
                checks=_CHECKS,
                generation=GenerationConfig(modes=[GenerationMode.POSITIVE], with_security_parameters=False),
            )
        )
    ),
).exclude(operation_id_regex="^list_(?!revisions)|^get_(health|metrics|openapi)$|^create_embeddings$|^apply_document$")


class Walk(_walked.as_state_machine()):  # type: ignore[misc]  # It is made when the program runs.
    """A walk through *hub*; *seen* counts what each operation answered."""

    hub: ClassVar[RunningHub]
    seen: ClassVar[Counter[tuple[str, int]]]
    failures: ClassVar[list[Exception]]

    def setup(self) -> None:
        """Start with one of each thing, so that the first link leads on from there."""
        self.known = Known()
        operator = self.hub.asks()
        made = fill(operator, f"walk-{next(_NUMBERS)}")
        for path, thing in (
            ("projects", made.project), ("project-bindings", made.binding), ("service-clients", made.client),
            ("artifacts", made.artifact), ("runtimes", made.runtime), ("embedding-identities", made.identity),
            ("deployments", made.production), ("deployments", made.candidate),
        ):  # fmt: skip
            self.known.see(f"/api/v1/{path}", thing)
        operator.client.close()

    def get_call_kwargs(self, case: schemathesis.Case) -> dict[str, Any]:
        return {"base_url": self.hub.url, "headers": {"Authorization": f"Bearer {self.hub.secret}"}}

    def before_call(self, case: schemathesis.Case) -> None:
        parameters = case.path_parameters or {}
        if "thing_id" in parameters:
            self.known.place(case.operation.path, parameters)
        if isinstance(case.body, dict):
            self.known.complete(case.body, thing_id=str(parameters.get("thing_id")))

    def validate_response(self, response: schemathesis.Response, case: schemathesis.Case, **fields: Any) -> None:
        try:
            super().validate_response(response, case, **fields)
        except Exception as error:
            self.failures.append(error)
            raise

    def after_call(self, response: schemathesis.Response, case: schemathesis.Case) -> None:
        super().after_call(response, case)
        self.seen[case.operation.definition.raw["operationId"], response.status_code] += 1
        if response.status_code in (200, 201):
            self.known.see(case.operation.path, response.json())


def walk(hub: RunningHub, *, count: int, steps: int) -> Counter[tuple[str, int]]:
    """Make *count* walks of up to so many steps, and return what each operation answered how often.

    Hypothesis gives up where a repeated beginning goes on otherwise, as it may, since the hub remembers what was made.
    Whatever a check found before that counts.
    """
    seen: Counter[tuple[str, int]] = Counter()
    failures: list[Exception] = []
    machine: Any = type("Walk", (Walk,), {"hub": hub, "seen": seen, "failures": failures})
    for _ in range(count // _WALKS_A_RUN):
        with suppress(FlakyStrategyDefinition):
            machine.run(
                settings=settings(
                    max_examples=_WALKS_A_RUN,
                    stateful_step_count=steps,
                    phases=[Phase.generate],
                    suppress_health_check=list(HealthCheck),
                )
            )
    assert failures == []
    return seen


def test_a_walk_along_the_links_finds_no_failure_and_nothing_undeclared(hub):
    seen = walk(hub, count=25, steps=40)
    done = {operation for operation, status in seen if status in (200, 201)}
    assert len(done) > 25, sorted(seen.items())
    assert set(seen) >= {("set_current_deployment", 200), ("retire_deployment", 200), ("create_route", 201)}


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_a_long_walk_goes_everywhere(hub):
    seen = walk(hub, count=200, steps=60)
    assert set(seen) >= REACHED, REACHED - set(seen)


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_a_long_walk_on_postgresql_goes_everywhere(hub_on_postgresql):
    seen = walk(hub_on_postgresql, count=150, steps=50)
    assert set(seen) >= REACHED, REACHED - set(seen)
    assert httpx2.get(f"{hub_on_postgresql.url}/health").status_code == 200
