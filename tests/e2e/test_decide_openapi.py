"""The OpenAPI document against the running server: schemathesis makes the requests and checks the answers."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import schemathesis
from hypothesis import HealthCheck, settings
from schemathesis.config import ChecksConfig, PositiveDataAcceptanceConfig, ProjectConfig, ProjectsConfig
from tests.processes import TOKEN, Server, serving

from steelyard.decide.api.openapi import openapi_document

if TYPE_CHECKING:
    from collections.abc import Iterator

AUTHORIZATION = {"Authorization": f"Bearer {TOKEN}"}
# No schema can say that option ids differ, that a workload is known or that a text holds no lone surrogate.
_CHECKS = ChecksConfig(positive_data_acceptance=PositiveDataAcceptanceConfig(expected_statuses=["200", "422"]))


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with serving() as server:
        yield server
        assert server.health()["queue"]["in_progress"] == 0
        assert server.stop() == 0
        assert "Traceback" not in server.log.text


schema = schemathesis.openapi.from_dict(
    openapi_document(), config=schemathesis.Config(projects=ProjectsConfig(default=ProjectConfig(checks=_CHECKS)))
)


@schema.parametrize()
@settings(max_examples=60, suppress_health_check=list(HealthCheck))
def test_every_operation_does_what_its_document_says(server: Server, case: schemathesis.Case) -> None:
    case.call_and_validate(base_url=server.url, headers=AUTHORIZATION)


@pytest.mark.slow
@schema.parametrize()
@settings(max_examples=400, suppress_health_check=list(HealthCheck))
def test_every_operation_does_what_its_document_says_for_long(server: Server, case: schemathesis.Case) -> None:
    case.call_and_validate(base_url=server.url, headers=AUTHORIZATION)
