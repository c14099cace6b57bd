"""What the operator sees: a log without secrets, and counters that say what happened."""

from __future__ import annotations

import json
import logging
import re

import pytest
from prometheus_client.parser import text_string_to_metric_families
from tests.api.asgi import BEARER, DECISION, ROW, TOKEN, Served, exchange

STATE, QUESTION, IDENTIFIER = "canary-state-5f2c", "canary-question-77ab", "canary-id-91d0"
SECRET = {**ROW, "id": IDENTIFIER, "state": STATE, "question": QUESTION}


def metric(served: Served, name: str, **labels: str) -> float:
    """Return the value of one series, 0 where it is not there yet."""
    text = served.client.get("/metrics").text
    samples = [sample for family in text_string_to_metric_families(text) for sample in family.samples]
    return sum(sample.value for sample in samples if sample.name == name and sample.labels == labels)


@pytest.mark.parametrize("marker", ["", "[fake:out_of_memory]", "[fake:failure]", "[fake:nan]"])
def test_logs_hold_no_token_state_or_question(served: Served, caplog: pytest.LogCaptureFixture, marker: str) -> None:
    caplog.set_level(logging.DEBUG)
    row = {**SECRET, "state": f"{STATE} {marker}"}
    served.post("/decide", row)
    served.post("/decide", {**row, "orderings": "rotations"})
    served.post("/decide/shared", {"state": row["state"], "decisions": [row]})
    served.post("/decide", {**row, "options": []})
    served.post("/decide", {**row, "state": f"{STATE} " * 5000})
    served.client.post("/decide", content=json.dumps(row)[:-1])
    served.client.post(f"/{STATE}/{QUESTION}?{TOKEN}", content=json.dumps(row))
    served.client.get(f"/metrics?token={TOKEN}", headers={"Authorization": f"Basic {TOKEN}"})
    exchange(served.server.app, chunks=[json.dumps(row).encode()], ends=False, hangs_up=True)
    # The client of this test logs too, which is none of the server's business.
    records = [record for record in caplog.records if not record.name.startswith(("httpx2", "httpcore2"))]
    shown = "".join(f"{record.getMessage()} {record.__dict__}\n" for record in records)
    assert "/decide" in shown
    for secret in (TOKEN, STATE, QUESTION):
        assert secret not in shown


def test_a_failed_response_logs_no_state_either(serving, engine, caplog: pytest.LogCaptureFixture) -> None:
    engine.model = {"x": float("nan")}
    assert serving(engine).post("/decide", SECRET).status_code == 500
    assert "Unforeseen failure" in caplog.text
    assert "ValueError" in caplog.text
    for secret in (TOKEN, STATE, QUESTION):
        assert secret not in caplog.text


def test_a_scorer_failure_is_logged_with_its_traceback(served: Served, caplog: pytest.LogCaptureFixture) -> None:
    served.decide(state="[fake:failure]")
    assert "Traceback (most recent call last)" in caplog.text
    assert "RuntimeError: the fake engine was asked to fail" in caplog.text


def test_a_refusal_is_no_failure_and_logs_no_traceback(served: Served, caplog: pytest.LogCaptureFixture) -> None:
    served.decide(options=[])
    served.decide(state="word " * 9000)
    served.client.get("/nowhere")
    exchange(served.server.app, chunks=[b"{"], ends=False, hangs_up=True)
    assert "Traceback" not in caplog.text
    assert {record.levelname for record in caplog.records if record.name.startswith("steelyard")} <= {"INFO"}


def test_every_request_is_one_line_with_its_id_and_status(served: Served, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    answer = served.decide(id="")
    lines = [line for line in caplog.messages if answer.headers["x-request-id"] in line]
    assert len(lines) == 1
    assert re.search(r" POST /decide 422 \d+\.\d ms$", lines[0])


def test_metrics_count_requests_by_path_and_status(served: Served) -> None:
    served.decide()
    served.decide()
    served.decide(id="")
    served.shared(DECISION)
    served.client.get("/health")
    for path in ("/nowhere", "/decide/x", "/\u2603"):
        served.client.get(path)
    exchange(served.server.app, headers=[])
    name = "steelyard_decide_requests_total"
    assert metric(served, name, path="/decide", status="200") == 2
    assert metric(served, name, path="/decide", status="422") == 1
    assert metric(served, name, path="/decide", status="401") == 1
    assert metric(served, name, path="/decide/shared", status="200") == 1
    assert metric(served, name, path="/health", status="200") == 1
    assert metric(served, name, path="other", status="404") == 3


def test_metrics_count_rows_and_evaluated_tokens(served: Served) -> None:
    direct = served.decide().json()
    assert metric(served, "steelyard_decide_rows_total", scorer="direct") == 1
    assert metric(served, "steelyard_decide_evaluated_tokens_total") == direct["input_tokens"]
    timing = served.shared(DECISION, {**DECISION, "id": "b"}, {**DECISION, "id": "c"}).json()["timing"]
    assert metric(served, "steelyard_decide_rows_total", scorer="shared") == 3
    tokens = direct["input_tokens"] + timing["prefix_tokens"] + timing["true_suffix_tokens"]
    assert metric(served, "steelyard_decide_evaluated_tokens_total") == tokens
    served.decide(orderings="rotations")
    assert metric(served, "steelyard_decide_rows_total", scorer="shared") == 6


def test_metrics_time_calls_by_phase(served: Served) -> None:
    served.decide()
    served.shared(DECISION)
    name = "steelyard_decide_scoring_seconds_count"
    assert metric(served, name, phase="total") == 2
    for phase in ("forward", "encode", "prefill", "replicate", "suffix_forward"):
        assert metric(served, name, phase=phase) == 1


def test_refused_and_failed_calls_add_no_rows(served: Served) -> None:
    served.decide(options=[])
    served.decide(state="[fake:failure]")
    served.decide(state="[fake:out_of_memory]")
    assert metric(served, "steelyard_decide_rows_total", scorer="direct") == 0
    assert metric(served, "steelyard_decide_out_of_memory_total") == 1


def test_metrics_show_the_queue(serving) -> None:
    served = serving()
    assert metric(served, "steelyard_decide_queue_depth") == 0
    with served.server.admission.enter():
        assert metric(served, "steelyard_decide_queue_depth") == 1
    assert metric(served, "steelyard_decide_running_call_seconds") == 0


def test_metrics_are_prometheus_text(served: Served) -> None:
    answer = served.client.get("/metrics")
    assert answer.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
    names = {family.name for family in text_string_to_metric_families(answer.text)}
    assert all(name.startswith("steelyard_decide_") for name in names)


def test_two_servers_in_one_process_count_apart(serving) -> None:
    first, second = serving(), serving()
    first.decide()
    assert metric(first, "steelyard_decide_rows_total", scorer="direct") == 1
    assert metric(second, "steelyard_decide_rows_total", scorer="direct") == 0


def test_a_body_in_a_get_is_no_reason_to_fail(served: Served) -> None:
    answer = exchange(served.server.app, "/metrics", method="GET", headers=[BEARER], chunks=[b"x" * 100])
    assert answer.status == 200
