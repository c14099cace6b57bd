"""The claim token is in the claim's answer and nowhere else, also where something fails that nobody foresaw."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

import pytest
from tests.canaries import Canaries, kept
from tests.comparing import PATH
from tests.problems import refused

from steelyard.hub.comparisons.domain import tokens
from steelyard.hub.comparisons.service import Comparisons
from steelyard.hub.db.errors import StoreBusy, StoreUnavailable

if TYPE_CHECKING:
    from tests.comparing import Stage


@pytest.fixture
def made(monkeypatch) -> list[str]:
    """Give every token that is made, answered or not."""
    made: list[str] = []
    real = tokens.new_token

    def note() -> str:
        made.append(real())
        return made[-1]

    monkeypatch.setattr(tokens, "new_token", note)
    return made


def leaks(stage: Stage, caplog: Any, made: list[str], *answers: Any) -> list[str]:
    """Return where any token is: of the database, the log at every level, the metrics, the trail and the answers."""
    canaries = Canaries()
    for token in made:
        canaries.add("the claim token", token)
        canaries.add("the claim token", token.removeprefix(tokens.PREFIX))
    trail = stage.operator.get("/audit-events", limit=100)
    metrics = stage.asked.ask("GET", "/metrics", headers=stage.operator.headers)
    found = canaries.found_in("the log", caplog.text)
    for answer in (trail, metrics, *answers):
        found += canaries.found_in(str(answer.request.url), answer.content + repr(answer.headers.raw).encode())
    for where, data in kept(str(stage.database.url.render_as_string(hide_password=False))):
        found += canaries.found_in(where, data)
    return found


def calls(stage: Stage, claim: Any) -> dict[str, dict[str, Any]]:
    token = {"claim_token": claim["claim_token"]}
    return {
        "progress": token | {"current_completed_cases": 1, "candidate_completed_cases": 1},
        "finish": token | {"outcome": "failed"},
        "result": stage.result(claim),
    }


@pytest.mark.parametrize("error", [ZeroDivisionError("nobody foresaw this"), StoreBusy(), StoreUnavailable()])
def test_a_call_that_fails_tells_no_token(stage, made, monkeypatch, caplog, error):
    caplog.set_level(logging.DEBUG)
    comparison, claim = stage.claimed()
    bodies = calls(stage, claim)

    def fail(*_arguments: Any, **_fields: Any) -> None:
        raise error

    with monkeypatch.context() as patch:
        patch.setattr(Comparisons, "_keep", fail)
        answers = [stage.call(comparison, name, **body) for name, body in (*bodies.items(), ("claim", {}))]
    status = 500 if isinstance(error, ZeroDivisionError) else 503
    for answer in answers:
        refused(answer, status, "INTERNAL_ERROR" if status == 500 else error.code.upper())
        assert ("retryable" in answer.json()) == (status == 503)
    assert ("Traceback" in caplog.text) == (status == 500)
    assert len(made) == 2
    assert leaks(stage, caplog, made, *answers) == []
    # Nothing was done, and the claim goes on.
    assert stage.call(comparison, "result", **bodies["result"]).json()["status"] == "completed"


def test_a_claim_that_fails_is_not_given_and_may_be_asked_for_again(stage, made, monkeypatch, caplog):
    caplog.set_level(logging.DEBUG)
    comparison = stage.create()
    with monkeypatch.context() as patch:
        patch.setattr("steelyard.hub.audit.store.record", lambda *_arguments, **_fields: 1 / 0)
        refused(stage.call(comparison, "claim"), 500, "INTERNAL_ERROR")
    assert stage.read(comparison) == comparison
    claim = stage.claim(comparison)
    assert claim["claim_token"] == made[-1]
    assert leaks(stage, caplog, made, stage.operator.get(PATH), stage.consumer.get(f"{PATH}/assigned")) == []


def test_a_store_that_cannot_count_a_claim_gives_it_all_the_same(stage, made, monkeypatch, caplog):
    caplog.set_level(logging.DEBUG)

    def fail(_database: Any) -> None:
        raise StoreBusy

    monkeypatch.setattr("steelyard.hub.db.epoch.beat", fail)
    _, claim = stage.claimed()
    assert made == [claim["claim_token"]]
    assert leaks(stage, caplog, made) == []


def test_the_search_for_tokens_finds_one(stage, caplog):
    """A search that finds nothing proves nothing unless it would find something."""
    stage.create(current_index_ref="steelyard_claim_in-a-wrong-place")
    logging.getLogger("steelyard.hub").warning("steelyard_claim_in-a-wrong-place")
    found = leaks(stage, caplog, ["steelyard_claim_in-a-wrong-place"], stage.operator.get(PATH))
    assert "the claim token in the log" in found
    assert len({where for where in found if "/api/v1" in where}) == 1
    assert len(found) >= 3
