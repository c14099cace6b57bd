"""Promises of docs/contract-comparisons.md that no other file of tests has."""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace
from datetime import datetime, timedelta

import pytest
from tests.comparing import PATH, make_stage
from tests.hub_api import Asked

from steelyard.hall.canonical import sha256_of_json
from steelyard.hub.comparisons.domain.protocol import LEASE
from steelyard.hub.db.database import Database, utc_now


def test_no_call_on_a_comparison_moves_the_pointer(stage):
    binding = f"/project-bindings/{stage.ids['project_binding_id']}"
    before = stage.operator.get(binding).json()
    routes = stage.operator.get("/routes").json()
    comparison, claim = stage.claimed()
    done = stage.call(comparison, "result", **stage.result(claim)).json()
    assert (done["status"], done["production_promotion_performed"]) == ("completed", False)
    assert stage.operator.get(binding).json() == before
    assert stage.operator.get("/routes").json() == routes


def test_the_rule_of_a_comparison_is_that_of_its_creation(stage):
    comparison, claim = stage.claimed()
    others = Asked(stage.database, eligibility_margin=0.2, eligibility_min_cases=2, eligibility_error_rate=0.5)
    later = replace(
        stage,
        asked=others,
        operator=others.holder(stage.operator.secret),
        consumer=others.holder(stage.consumer.secret),
    )
    done = later.call(comparison, "result", **later.result(claim)).json()
    assert done["rule"] == done["evaluation_summary"]["rule"] == comparison["rule"]
    assert done["rule"] == {"margin": 0.05, "minimum_cases": 30, "candidate_error_rate_limit": 0.0}
    assert later.create()["rule"] == {"margin": 0.2, "minimum_cases": 2, "candidate_error_rate_limit": 0.5}
    others.close()


def test_the_retrieval_settings_of_a_claim_have_the_pinned_digest(stage):
    comparison, claim = stage.claimed()
    assert claim["retrieval_settings"] == {"top_k": 10}
    assert sha256_of_json(claim["retrieval_settings"]) == comparison["pins"]["retrieval_config_sha256"]
    assert sha256_of_json(claim["comparison"]["pins"]) == comparison["pins_digest"]


def test_a_conflict_about_a_state_tells_the_present_version(stage):
    comparison, claim = stage.claimed()
    token = {"claim_token": claim["claim_token"]}
    refused = [
        stage.call(comparison, "claim"),
        stage.call(comparison, "finish", outcome="cancelled", **token),
        stage.call(comparison, "cancel", caller=stage.operator, expected_version=7),
    ]
    assert [(answer.status_code, answer.json()["current_version"]) for answer in refused] == [(409, 2)] * 3
    assert stage.call(comparison, "finish", outcome="failed", **token).json()["version"] == 3
    ended = stage.call(comparison, "progress", current_completed_cases=1, candidate_completed_cases=1, **token)
    assert (ended.json()["code"], ended.json()["current_version"]) == ("COMPARISON_ENDED", 3)


class Clock:
    """The time, and how much of it a test lets pass."""

    passed = timedelta()

    def __call__(self) -> datetime:
        return utc_now() + self.passed


@pytest.mark.parametrize("seen_after", [LEASE, timedelta(days=1)])
def test_an_interrupted_comparison_ended_when_its_claim_expired(sqlite_databases, seen_after):
    clock = Clock()
    with sqlite_databases.fresh() as url, closing(Database(url, clock=clock)) as database:
        asked = Asked(database)
        stage = make_stage(asked)
        comparison, claim = stage.claimed()
        clock.passed = seen_after
        [found] = stage.operator.get(PATH).json()["items"]
        assert (found["id"], found["status"]) == (comparison["id"], "interrupted")
        assert found["error_code"] == "COMPARISON_CLAIM_EXPIRED"
        assert found["ended_at"] == claim["claim_expires_at"]
        asked.close()
