"""Calibration over HTTP: a temperature adds a key and changes nothing else."""

from __future__ import annotations

import math

import pytest
from tests.api.asgi import DECISION, Served
from tests.api.test_endpoints import DIRECT_KEYS, SHARED_KEYS, without_seconds


def softmax(logits: list[float], temperature: float) -> list[float]:
    """The textbook formula, written apart from the code under test."""
    weights = [math.exp(logit / temperature) for logit in logits]
    return [weight / sum(weights) for weight in weights]


@pytest.mark.parametrize(("workload", "temperature"), [("triage", 2.5), ("audit", 0.5)])
def test_a_workload_adds_calibrated_to_a_direct_result_and_changes_nothing_else(
    served: Served, workload: str, temperature: float
) -> None:
    plain = served.decide().json()
    result = served.decide(workload=workload).json()
    assert list(result) == [*DIRECT_KEYS, "calibrated"]
    calibrated = result.pop("calibrated")
    assert without_seconds(result) == without_seconds(plain)
    assert list(calibrated) == ["workload", "temperature", "probabilities"]
    assert (calibrated["workload"], calibrated["temperature"]) == (workload, temperature)
    assert calibrated["probabilities"] == pytest.approx(softmax(plain["option_logits"], temperature), abs=1e-12)


def test_a_workload_adds_calibrated_to_every_shared_result(served: Served) -> None:
    decisions = [DECISION, {**DECISION, "id": "other", "question": "Why?"}]
    plain = served.shared(*decisions).json()["results"]
    results = served.shared(*decisions, workload="triage").json()["results"]
    assert [list(result) for result in results] == [[*SHARED_KEYS, "calibrated"]] * 2
    calibrated = [result.pop("calibrated") for result in results]
    assert results == plain
    for entry, result in zip(calibrated, plain, strict=True):
        assert entry["probabilities"] == pytest.approx(softmax(result["option_logits"], 2.5), abs=1e-12)


def test_calibration_never_changes_the_top_option(served: Served) -> None:
    for n in range(20):
        result = served.decide(question=f"Question {n}?", workload="triage").json()
        native, calibrated = result["probabilities"], result["calibrated"]["probabilities"]
        assert native.index(max(native)) == calibrated.index(max(calibrated))


@pytest.mark.parametrize("workload", ["nobody", "", "Triage", 1, True, [], {}, ["triage"]])
def test_an_unknown_workload_is_a_422(served: Served, engine, workload: object) -> None:
    for answer in (served.decide(workload=workload), served.shared(DECISION, workload=workload)):
        assert (answer.status_code, answer.json()["error"]["code"]) == (422, "invalid_request")
        assert "audit, triage" in answer.json()["error"]["message"]
    assert engine.calls == []


def test_without_a_table_every_workload_is_unknown(serving) -> None:
    assert serving().decide(workload="triage").status_code == 422


def test_a_null_workload_means_none(served: Served) -> None:
    assert list(served.decide(workload=None).json()) == DIRECT_KEYS
    (result,) = served.shared(DECISION, workload=None).json()["results"]
    assert list(result) == SHARED_KEYS


def test_a_workload_beside_orderings_none_calibrates(served: Served) -> None:
    assert list(served.decide(workload="audit", orderings="none").json()) == [*DIRECT_KEYS, "calibrated"]
    (result,) = served.shared({**DECISION, "orderings": "none"}, workload="audit").json()["results"]
    assert list(result) == [*SHARED_KEYS, "calibrated"]


@pytest.mark.parametrize("orderings", ["rotations", "all"])
def test_a_workload_and_an_averaging_exclude_each_other(served: Served, engine, orderings: str) -> None:
    plain = {**DECISION, "id": "plain"}
    for answer in (
        served.decide(workload="audit", orderings=orderings),
        served.shared(plain, {**DECISION, "orderings": orderings}, workload="audit"),
    ):
        assert (answer.status_code, answer.json()["error"]["code"]) == (422, "invalid_request")
    assert engine.calls == []
