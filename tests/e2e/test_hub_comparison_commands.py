"""One comparison from the command line to its report, against a hub that really runs."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import httpx2
import pytest
from tests.comparing import Stage, make_stage
from tests.hub_api import Caller
from tests.hub_process import RunningHub, hub_over
from tests.processes import WAIT_S

from steelyard.hub.db.database import Database

if TYPE_CHECKING:
    from collections.abc import Iterator

CREATE = (
    "comparisons", "create", "--candidate-route", "next", "--suite", "questions", "--current-index-ref", "faq-old",
    "--candidate-index-ref", "faq-new",
)  # fmt: skip


@dataclass(frozen=True)
class AskedOverHttp:
    """Who asks a running hub, as a stage knows them; the request log is written into the hub's own database."""

    hub: RunningHub
    client: httpx2.Client
    database: Database

    def caller(self, _role: str) -> Caller:
        return self.holder(self.hub.secret)

    def holder(self, secret: str) -> Caller:
        return Caller(self.client, secret)


@pytest.fixture(scope="module")
def hub(tmp_path_factory) -> Iterator[AskedOverHttp]:
    url = f"sqlite:///{tmp_path_factory.mktemp('hub') / 'hub.db'}"
    with hub_over(url) as hub, httpx2.Client(base_url=hub.url, trust_env=False, timeout=WAIT_S) as client:
        yield AskedOverHttp(hub, client, Database(url))


@pytest.fixture(scope="module")
def stage(hub) -> Stage:
    return make_stage(hub, cases=4)


def created(hub: RunningHub, stage: Stage, *more: str) -> Any:
    """Create a comparison by names, and return it; one that is not over is cancelled."""
    for item in json.loads(hub.run("comparisons", "list", "--json").stdout)["items"]:
        if item["status"] == "pending":
            hub.run("comparisons", "cancel", item["id"], "--expected-version", str(item["version"]))
    consumer = stage.ids["consumer_client_id"]
    return json.loads(hub.run(*CREATE, "--consumer", consumer, *more, "--json").stdout)


@pytest.fixture(scope="module")
def done(hub, stage) -> Any:
    """Give a published comparison in which the candidate finds something else for the first, critical case."""
    claim = stage.claim(comparison := created(hub.hub, stage))
    found = {"ranked_results": [{"chunk_id": "elsewhere | <b>", "document_id": "d", "score": 0.9}]}
    answer = stage.call(comparison, "result", **stage.result(claim, candidate=stage.leg(case_0=found)))
    assert answer.status_code == 200, answer.text
    return answer.json()


def test_a_comparison_is_created_by_names_and_cancelled_by_its_version(hub, stage):
    comparison = created(hub.hub, stage)
    assert {name: comparison[name] for name in stage.ids if name in comparison} == {
        name: stage.ids[name] for name in stage.ids if name in comparison
    }  # fmt: skip
    assert comparison["retrieval_config_sha256"] == stage.settings_sha256
    second = hub.hub.run(*CREATE, "--consumer", stage.ids["consumer_client_id"], code=1)
    assert "[COMPARISON_ACTIVE]" in second.stderr
    late = hub.hub.run("comparisons", "cancel", comparison["id"], "--expected-version", "9", code=1)
    assert "The present version is 1" in late.stderr
    told = hub.hub.run("comparisons", "cancel", comparison["id"], "--expected-version", "1").stdout
    assert dict(line.split(None, 1) for line in told.splitlines())["status"] == "cancelled"
    assert (
        "Cancelled. It was cancelled before it had a result."
        in hub.hub.run("comparisons", "report", comparison["id"]).stdout
    )


def test_the_same_key_is_the_same_comparison(hub, stage):
    key = "the-same-key"
    first = created(hub.hub, stage, "--idempotency-key", key)
    again = hub.hub.run(*CREATE, "--consumer", stage.ids["consumer_client_id"], "--idempotency-key", key)
    assert again.stderr == "This key has made this comparison before.\n"
    assert first["id"] in again.stdout


def test_a_published_comparison_is_reported_in_every_format(hub, done, tmp_path):
    told = hub.hub.run("comparisons", "report", done["id"]).stdout
    assert done["evaluation_summary"]["eligibility"] in told.splitlines()[0]
    assert "elsewhere | <b> (unjudged)" in told
    page = tmp_path / "report.html"
    hub.hub.run(
        "comparisons", "report", done["id"], "--format", "html", "-o", str(page), "--fail-unless-eligible", code=3
    )
    assert "elsewhere | &lt;b&gt; (unjudged)" in page.read_text("utf-8")
    assert "elsewhere \\| &lt;b&gt;" in hub.hub.run("comparisons", "report", done["id"], "--format", "markdown").stdout
    report = json.loads(hub.hub.run("comparisons", "report", done["id"], "--format", "json").stdout)
    assert report["verdict"]["eligibility"] == done["evaluation_summary"]["eligibility"]
    assert [metric["name"] for metric in report["metrics"] if metric["is_primary"]] == ["ndcg"]
    assert len(report["cases"]) == 4


def test_a_published_comparison_is_listed_and_its_unjudged_results_exported(hub, stage, done):
    (line,) = [line for line in hub.hub.run("comparisons", "list").stdout.splitlines() if line.startswith(done["id"])]
    assert line.split()[3] == done["evaluation_summary"]["eligibility"]
    (entry,) = [json.loads(line) for line in hub.hub.run("comparisons", "unjudged", done["id"]).stdout.splitlines()]
    assert entry == {
        "case_id": stage.cases[0]["case_id"], "query": stage.cases[0]["query"], "chunk_id": "elsewhere | <b>",
        "document_id": "d", "ranks": {"candidate": 1},
    }  # fmt: skip


def test_a_viewer_reads_reports_and_creates_nothing(hub, stage, done):
    viewer = hub.hub.run("credentials", "issue", "--role", "viewer", "--name", "Reader").stdout.strip()
    hub.hub.run("comparisons", "report", done["id"], STEELYARD_CREDENTIAL=viewer)
    told = hub.hub.run(*CREATE, "--consumer", stage.ids["consumer_client_id"], code=1, STEELYARD_CREDENTIAL=viewer)
    assert "[FORBIDDEN]" in told.stderr
