"""Comparisons against their part of the document, asked by an operator and by the consumer of a live claim.

What schemathesis makes up is of no comparison and has no claim's token, so mostly those that there are take its place.
"""

from __future__ import annotations

import random
from collections import Counter
from typing import TYPE_CHECKING, Any

import httpx2
import pytest
import schemathesis
from hypothesis import HealthCheck, settings
from schemathesis import GenerationMode
from schemathesis.config import (
    ChecksConfig,
    GenerationConfig,
    PositiveDataAcceptanceConfig,
    ProjectConfig,
    ProjectsConfig,
)
from tests.comparing import PATH, make_stage
from tests.hub_api import Caller
from tests.hub_process import hub_over
from tests.processes import WAIT_S

from steelyard.hub.app import build_document

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.comparing import Stage
    from tests.hub_process import RunningHub

_CHECKS = ChecksConfig(
    positive_data_acceptance=PositiveDataAcceptanceConfig(expected_statuses=["2xx", "403", "404", "409", "422"])
)
schema = schemathesis.openapi.from_dict(
    build_document(),
    config=schemathesis.Config(
        projects=ProjectsConfig(
            default=ProjectConfig(
                checks=_CHECKS,
                generation=GenerationConfig(modes=[GenerationMode.POSITIVE], with_security_parameters=False),
            )
        )
    ),
).include(path_regex=PATH)
CONSUMERS = {
    "list_assigned_comparisons", "claim_comparison", "report_comparison_progress", "publish_comparison_result",
    "finish_comparison",
}  # fmt: skip
# Each at least once, or the requests were not about anything.
REACHED = {
    ("create_selected_model_comparison", 201), ("create_selected_model_comparison", 409),
    ("get_selected_model_comparison", 200), ("list_compared_cases", 200), ("cancel_selected_model_comparison", 200),
    ("list_assigned_comparisons", 200), ("claim_comparison", 200), ("claim_comparison", 409),
    ("report_comparison_progress", 200), ("report_comparison_progress", 403), ("finish_comparison", 200),
    ("publish_comparison_result", 403), ("publish_comparison_result", 422),
}  # fmt: skip


class _Served:
    """A hub as a process, for making a stage by its operator."""

    def __init__(self, hub: RunningHub) -> None:
        self.client = httpx2.Client(base_url=hub.url, trust_env=False, timeout=WAIT_S)
        self._operator = hub.secret

    def caller(self, _role: str) -> Caller:
        return self.holder(self._operator)

    def holder(self, secret: str) -> Caller:
        return Caller(self.client, secret)


class Play:
    """One hub with a comparison that is mostly claimed; *seen* counts what each operation answered."""

    def __init__(self, hub: RunningHub, stage: Stage) -> None:
        self.url = hub.url
        self.stage = stage
        self.seen: Counter[tuple[str, int]] = Counter()
        self._chance = random.Random(1)
        self._comparison: Any = None
        self._token = ""

    def prepare(self, operation: str) -> None:
        """Have a comparison: pending before every other claim, else claimed; before creations mostly none."""
        claims = [self.seen["claim_comparison", status] for status in (200, 409)]
        is_left = operation == "claim_comparison" and claims[0] <= claims[1]
        if self._comparison is not None:
            self._comparison = self.stage.read(self._comparison)
        if self._comparison is None or self._comparison["ended_at"] or is_left:
            self._end_active()
            self._comparison = self.stage.create()
        if self._comparison["status"] == "pending" and not is_left:
            claim = self.stage.claim(self._comparison)
            self._token = claim["claim_token"]
            self._comparison = claim["comparison"]
        if operation == "create_selected_model_comparison" and self._chance.random() < 0.7:
            self._end_active()

    def _end_active(self) -> None:
        """Make room for a new one."""
        for active in self.stage.consumer.get(f"{PATH}/assigned").json()["items"]:
            self.stage.operator.post(f"{PATH}/{active['id']}/cancel", expected_version=active["version"])
            self.stage.call(active, "finish", claim_token=self._token or "none", outcome="cancelled")

    def place(self, case: schemathesis.Case) -> None:
        """Mostly, put in what there is."""
        if "comparison_id" in (case.path_parameters or {}) and self._chance.random() < 0.9:
            case.path_parameters["comparison_id"] = self._comparison["id"]
        if not isinstance(case.body, dict):
            return
        known = {
            **self.stage.body(),
            "claim_token": self._token or "none",
            "pins_digest": self._comparison["pins_digest"],
            "expected_version": self._comparison["version"],
        }
        for name in set(case.body) & set(known):
            if self._chance.random() < (0.7 if name == "claim_token" else 0.95):
                case.body[name] = known[name]

    def ask(self, case: schemathesis.Case) -> None:
        """Send a case as the one who may."""
        operation = case.operation.definition.raw["operationId"]
        self.prepare(operation)
        self.place(case)
        caller = self.stage.consumer if operation in CONSUMERS else self.stage.operator
        answer = case.call_and_validate(base_url=self.url, headers=caller.headers)
        self.seen[operation, answer.status_code] += 1
        if operation == "claim_comparison" and answer.status_code == 200:
            self._token = answer.json()["claim_token"]


@pytest.fixture(scope="module")
def play(tmp_path_factory) -> Iterator[Play]:
    with hub_over(f"sqlite:///{tmp_path_factory.mktemp('fuzz') / 'hub.db'}") as hub:
        served: Any = _Served(hub)
        play = Play(hub, make_stage(served))
        yield play
        served.client.close()
        assert "Traceback" not in hub.log.text


@schema.parametrize()
@settings(max_examples=40, suppress_health_check=list(HealthCheck))
def test_every_call_on_a_comparison_does_what_its_document_says(play: Play, case: schemathesis.Case) -> None:
    play.ask(case)


def test_the_calls_were_about_something(play: Play) -> None:
    """It runs after the others of this file."""
    assert set(play.seen) >= REACHED, (REACHED - set(play.seen), play.seen)
