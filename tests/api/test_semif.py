"""SemIf's scorers over HTTP: what they return and refuse reaches the caller as it is."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.api.asgi import DECISION, ROW, Served

from steelyard.decide.settings import load_settings
from steelyard.decide.startup import start_engine

if TYPE_CHECKING:
    from types import ModuleType


@pytest.fixture
def served(semif: ModuleType, serving, tiny_folder, table) -> Served:
    environ = {"model": str(tiny_folder("tiny-qwen2")), "device": "cpu", "threads": "1", "engine": "semif"}
    settings = load_settings({f"SEMIF_{name.upper()}": text for name, text in environ.items()}, needs_token=False)
    own: Served = serving(start_engine(settings, environ={"HOME": "/nowhere"}), calibration=table)
    semif.called.clear()
    return own


def test_decide_answers_with_semifs_own_result(served: Served, semif: ModuleType) -> None:
    answer = served.decide()
    assert answer.status_code == 200
    assert answer.json() == semif.returned[-1]
    assert list(answer.json()) == list(semif.returned[-1])
    assert semif.called == [("score", ROW, 4096)]


def test_shared_answers_with_semifs_own_results_and_timing(served: Served, semif: ModuleType) -> None:
    answer = served.shared(DECISION, {**DECISION, "id": "ticket-2", "question": "Is it urgent?"})
    assert answer.status_code == 200
    results, timing = semif.returned[-1]
    assert answer.json() == {"results": results, "timing": timing}
    assert [name for name, _rows, _limit in semif.called] == ["score_shared"]


def test_an_averaged_decision_is_one_shared_call_whose_results_stay_as_they_are(
    served: Served, semif: ModuleType
) -> None:
    answer = served.decide(orderings="rotations")
    assert answer.status_code == 200
    assert answer.json()["orderings"] == semif.returned[-1][0]
    assert [(name, len(rows)) for name, rows, _limit in semif.called] == [("score_shared", 3)]


def test_a_workload_adds_calibrated_and_leaves_semifs_result_alone(served: Served, semif: ModuleType) -> None:
    answer = served.decide(workload="triage").json()
    assert answer.pop("calibrated")["temperature"] == 2.5
    assert answer == semif.returned[-1]


def test_what_semif_refuses_is_a_422_with_its_text(served: Served) -> None:
    answer = served.decide(state="word " * 9000)
    assert answer.status_code == 422
    assert answer.json()["error"]["message"].endswith("exceed limit 4096; no truncation allowed")


@pytest.mark.parametrize(
    ("marker", "status", "code", "calls"),
    [
        ("OUT_OF_MEMORY", 503, "out_of_memory", ["score"]),
        ("NAN", 500, "scoring_failed", ["score", "score"]),
        ("FAILURE", 500, "scoring_failed", ["score", "score"]),
    ],
)
def test_its_failures_have_their_statuses_and_the_server_goes_on(
    served: Served, semif: ModuleType, marker: str, status: int, code: str, calls: list[str]
) -> None:
    answer = served.decide(state=getattr(semif, marker))
    assert (answer.status_code, answer.json()["error"]["code"]) == (status, code)
    assert [name for name, _rows, _limit in semif.called] == calls, (
        "after a fault the warm-up row is scored by SemIf too"
    )
    assert not served.poisoned.is_set()
    assert served.decide().status_code == 200


def test_health_names_the_model_that_semif_judges_with(served: Served) -> None:
    model = served.client.get("/health").json()["model"]
    assert model == served.decide().json()["model"]
    assert model["dtype"] == "float32"
