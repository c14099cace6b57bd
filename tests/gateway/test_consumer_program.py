"""The program of docs/howto/comparison-consumer.md, as it stands there, against a hub that really serves."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest
from tests.gateway.consumer_world import CASES, PATH, Shop, reply, shop
from tests.gateway.serving import WAIT_S
from tests.unit.test_docs import ROOT

from steelyard.hub.db.database import Database

if TYPE_CHECKING:
    from pathlib import Path

PAGE = ROOT / "docs" / "howto" / "comparison-consumer.md"


@pytest.fixture
def shopped(sqlite_databases, upstream):
    with sqlite_databases.fresh() as url:
        database = Database(url)
        with shop(database, upstream) as served:
            yield served
        database.close()


@pytest.fixture
def folder(shopped, tmp_path):
    [program] = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    (tmp_path / "consumer.py").write_text(program, encoding="utf-8")
    shopped.write_files(tmp_path)
    return tmp_path


def start(shopped: Shop, folder: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "consumer.py"], cwd=folder, env=dict(os.environ) | shopped.environ, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip


def run(shopped: Shop, folder: Path) -> str:
    process = start(shopped, folder)
    out, err = process.communicate(timeout=WAIT_S)
    assert (process.returncode, err) == (0, "")
    return out


def at_call(upstream: Any, number: int, act: Any) -> None:
    """Do *act* while the embedding server has the call of this number, counted from now."""
    seen = len(upstream.asked)

    def reply_and_act(handler: Any, body: dict[str, Any]) -> None:
        if len(upstream.asked) == seen + number:
            act()
        reply(handler, body)

    upstream.reply = reply_and_act


def test_it_publishes_both_legs(shopped, folder):
    comparison = shopped.create()
    assert run(shopped, folder) == f"{comparison['id']} completed\n"
    done = shopped.operator.get(f"{PATH}/{comparison['id']}").json()
    assert done["evaluation_summary"]["comparable"] is True
    assert done["evaluation_summary"]["metric_deltas"]["mrr"]["losses"] == 1
    cases = shopped.operator.get(f"{PATH}/{comparison['id']}/cases").json()["items"]
    assert [case["current"]["ranked_results"][0]["chunk_id"] for case in cases] == [
        "refunds", "delivery", "kettles",
    ]  # fmt: skip
    assert run(shopped, folder) == ""


def test_what_is_not_as_pinned_is_told_before_anything_is_embedded(shopped, folder, upstream):
    asked = len(upstream.asked)
    for number, (change, code) in enumerate([
        (lambda: (folder / "corpus.jsonl").write_text("another"), "CORPUS_DIFFERS"),
        (lambda: None, "INDEX_DIFFERS"),
    ]):  # fmt: skip
        refs = {"candidate_index_ref": "faq-of-nobody"} if number else {}
        comparison = shopped.create(idempotency_key=f"key-{number}-of-the-test", **refs)
        text = (folder / "corpus.jsonl").read_text()
        change()
        assert run(shopped, folder) == f"{comparison['id']} failed\n"
        (folder / "corpus.jsonl").write_text(text)
        assert shopped.status_of(comparison) == ("failed", code)
    assert len(upstream.asked) == asked


def test_a_cancel_stops_it_after_the_case_that_it_is_at(shopped, folder, upstream):
    comparison = shopped.create()
    path = f"{PATH}/{comparison['id']}/cancel"
    at_call(upstream, 2, lambda: shopped.operator.post(path, expected_version=2))
    asked = len(upstream.asked)
    assert run(shopped, folder) == f"{comparison['id']} cancelled\n"
    assert len(upstream.asked) == asked + 2


def test_a_changed_target_fences_it(shopped, folder, upstream):
    comparison, route = shopped.create(), shopped.things["route"]
    close = f"/routes/{route['id']}/deactivate"
    at_call(upstream, 2 * len(CASES), lambda: shopped.operator.post(close, expected_version=1))
    assert run(shopped, folder) == f"{comparison['id']} 409 COMPARISON_TARGET_CHANGED\n"
    assert shopped.status_of(comparison) == ("interrupted", "COMPARISON_TARGET_CHANGED")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_told_to_end_it_tells_the_hub_and_ends(shopped, folder, upstream, number):
    comparison, process = shopped.create(), None

    def terminate() -> None:
        assert process is not None
        process.send_signal(number)

    at_call(upstream, 2, terminate)
    process = start(shopped, folder)
    out, err = process.communicate(timeout=WAIT_S)
    assert (process.returncode, out, err) == (0, f"{comparison['id']} failed\n", "")
    assert shopped.status_of(comparison) == ("failed", "CONSUMER_STOPPED")


def test_a_case_that_the_embedding_server_refuses_fails_alone(shopped, folder, upstream):
    comparison = shopped.create()

    def refuse(handler: Any, body: dict[str, Any]) -> None:
        if body["input"] == ["Where is my parcel?"] and body["model"] == "minilm-l3":
            handler.json({"error": {"message": "no"}}, status=400)
        else:
            reply(handler, body)

    upstream.reply = refuse
    assert run(shopped, folder) == f"{comparison['id']} completed\n"
    summary = shopped.operator.get(f"{PATH}/{comparison['id']}").json()["evaluation_summary"]
    assert (summary["eligibility"], summary["legs"]["candidate"]["error_count"]) == ("ineligible", 1)


@pytest.mark.parametrize("lost", ["progress", "result"])
def test_it_sends_again_what_lost_its_answer(shopped, folder, monkeypatch, lost):
    comparison = shopped.create()
    program = folder / "consumer.py"
    for name, value in shopped.environ.items():
        monkeypatch.setenv(name, value)
    monkeypatch.chdir(folder)
    names: dict[str, Any] = {"__name__": "consumer", "__file__": str(program)}
    exec(compile(program.read_text(encoding="utf-8"), program, "exec"), names)
    send, sent = names["send"], []

    def send_and_lose(request: Any) -> Any:
        answer = send(request)
        if request.full_url.endswith(lost):
            sent.append(request.data)
            if len(sent) == 1:
                raise ConnectionResetError
        return answer

    names["send"] = send_and_lose
    assert names["carry_out"](comparison) == "completed"
    assert sent[1] == sent[0]
    assert shopped.status_of(comparison) == ("completed", None)


def test_a_lost_claim_is_not_asked_for_again(shopped, folder, monkeypatch):
    comparison = shopped.create()
    shopped.consumer.post(f"{PATH}/{comparison['id']}/claim")
    assert run(shopped, folder) == ""
    assert shopped.status_of(comparison) == ("running", None)
