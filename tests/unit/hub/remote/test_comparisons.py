"""The commands for comparisons, against a hub that answers from a table."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import httpx2
import pytest
from click.testing import CliRunner
from tests.unit.hub.reports.comparisons import cases, comparison, completed, identity

from steelyard.cli import main
from steelyard.client import HubClient
from steelyard.hub.remote import session
from steelyard.hub.remote.intents import create
from steelyard.hub.remote.reporting import report
from steelyard.hub.reports.formats import FORMATS

if TYPE_CHECKING:
    from click.testing import Result

PATH = "/api/v1/selected-model-comparisons"
ID = identity(1)
CORPUS, SETTINGS = "ab" * 32, "cd" * 32
INDEXES = ("--current-index-ref", "index-old", "--candidate-index-ref", "index-new")
GIVEN = ("--candidate-route", "trial", "--consumer", "indexer", "--suite", "faq", *INDEXES)


def things() -> dict[str, list[dict[str, Any]]]:
    """Return what the hub has, by the path of its list."""
    return {
        "routes": [{"id": "r1", "slug": "trial", "project_binding_id": "b1", "deployment_id": "d2"}],
        "project-bindings": [
            {"id": "b1", "project_id": identity(9), "capability": "rag.embedding@1", "current_deployment_id": "d1"}
        ],
        "service-clients": [{"id": "c1", "slug": "indexer"}],
        "deployments": [{"id": "d1", "slug": "old"}, {"id": "d2", "slug": "new"}, {"id": "d3", "slug": "third"}],
        "suites": [{"id": "s1", "slug": "faq"}],
        "suites/s1/revisions": [revision(2), revision(1)],
        "suite-revisions": [revision(2), revision(1), {**revision(3), "id": identity(5)}],
        "suite-revisions/v2/cases": [{"label_provenance": {"corpus_revision": CORPUS}}],
        "suite-revisions/v1/cases": [{"label_provenance": {"corpus_revision": "00" * 32}}],
        f"selected-model-comparisons/{ID}/cases": cases(),
        "selected-model-comparisons": [completed(), {**comparison("pending"), "id": identity(8)}],
    }  # fmt: skip


def revision(number: int) -> dict[str, Any]:
    return {
        "id": f"v{number}", "number": number, "retrieval_config_sha256": SETTINGS, "retrieval_settings": {"top_k": 3}
    }  # fmt: skip


@dataclass
class Hub:
    """A hub that answers from its things and takes every creation; it can lose answers."""

    things: dict[str, list[dict[str, Any]]] = field(default_factory=things)
    posted: list[dict[str, Any]] = field(default_factory=list)
    answers: list[int | None] = field(default_factory=lambda: [201])

    def answer(self, request: httpx2.Request) -> httpx2.Response:
        path = request.url.path.removeprefix("/api/v1/")
        if request.method == "POST":
            return self._made(json.loads(request.read()))
        if path in self.things:
            return self._page(self.things[path], dict(request.url.params))
        collection, _, thing_id = path.rpartition("/")
        found = [thing for thing in self.things[collection] if thing["id"] == thing_id]
        if not found:
            return httpx2.Response(404, json={"code": "UNKNOWN_THING", "detail": "No comparison has this id"})
        return httpx2.Response(200, json=found[0])

    def _made(self, body: dict[str, Any]) -> httpx2.Response:
        self.posted.append(body)
        status = self.answers[len(self.posted) - 1]
        if status is None:
            raise httpx2.ReadError("the connection was lost")
        return httpx2.Response(status, json=comparison("pending"))

    @staticmethod
    def _page(every: list[dict[str, Any]], query: dict[str, str]) -> httpx2.Response:
        filters = {name: query[name] for name in ("slug", "capability") if name in query}
        items = [thing for thing in every if filters.items() <= thing.items()][: int(query["limit"])]
        return httpx2.Response(200, json={"items": items, "limit": 50, "offset": 0, "has_more": False})

    def run(self, *arguments: str, code: int = 0) -> Result:
        result = CliRunner().invoke(main, ["hub", "comparisons", *arguments])
        assert result.exit_code == code, result.output
        return result


@pytest.fixture
def hub(monkeypatch) -> Hub:
    """Give a hub whom the commands ask."""
    own = Hub()

    def client(url: str, *, credential: str) -> HubClient:
        return HubClient(url, credential=credential, transport=httpx2.MockTransport(own.answer))

    monkeypatch.setattr(session, "HubClient", client)
    monkeypatch.setenv("STEELYARD_CREDENTIAL", "steelyard_operator_x")
    return own


def test_what_is_left_out_of_a_creation_follows_from_the_rest(hub):
    told = hub.run("create", *GIVEN, "--idempotency-key", "key-0001")
    assert hub.posted == [
        {
            "project_binding_id": "b1", "consumer_client_id": "c1", "suite_revision_id": "v2",
            "current_deployment_id": "d1", "candidate_deployment_id": "d2", "candidate_route_id": "r1",
            "corpus_sha256": CORPUS, "retrieval_config_sha256": SETTINGS, "current_index_ref": "index-old",
            "candidate_index_ref": "index-new", "idempotency_key": "key-0001",
        }
    ]  # fmt: skip
    assert told.stderr == "Created; it waits for its consumer.\n"
    assert told.stdout.splitlines()[0].split() == ["id", ID]


def test_what_is_given_is_taken(hub):
    hub.run(
        "create", *GIVEN, "--number", "1", "--binding", "rag.embedding@1", "--current-deployment", "third",
        "--candidate-deployment", identity(7), "--corpus-sha256", "11" * 32, "--retrieval-config-sha256", "22" * 32,
    )  # fmt: skip
    (body,) = hub.posted
    assert body["suite_revision_id"] == "v1"
    assert (body["current_deployment_id"], body["candidate_deployment_id"]) == ("d3", identity(7))
    assert (body["corpus_sha256"], body["retrieval_config_sha256"]) == ("11" * 32, "22" * 32)


def test_an_older_revision_has_its_own_corpus(hub):
    hub.run("create", *GIVEN, "--number", "1")
    assert hub.posted[0]["corpus_sha256"] == "00" * 32


def test_a_revision_can_be_given_by_its_id(hub):
    hub.things[f"suite-revisions/{identity(5)}/cases"] = hub.things["suite-revisions/v2/cases"]
    hub.run("create", *GIVEN[:4], *INDEXES, "--suite-revision", identity(5))
    assert hub.posted[0]["suite_revision_id"] == identity(5)


@pytest.mark.parametrize(
    "more", [(), ("--suite", "faq", "--suite-revision", "v1"), ("--suite-revision", "v1", "--number", "1")]
)
def test_the_questions_are_said_in_one_way(hub, more):
    told = hub.run("create", *GIVEN[:4], *INDEXES, *more, code=2)
    assert "Say which questions: either --suite NAME" in told.stderr
    assert hub.posted == []


def test_a_binding_without_a_pointer_has_nothing_to_compare_with(hub):
    hub.things["project-bindings"][0]["current_deployment_id"] = None
    assert "points at no deployment yet" in hub.run("create", *GIVEN, code=1).stderr


def test_the_stable_route_leads_to_no_candidate(hub):
    hub.things["routes"][0]["deployment_id"] = None
    assert "name the experiment route to the candidate" in hub.run("create", *GIVEN, code=1).stderr
    assert hub.posted == []


def test_an_empty_key_is_sent_and_not_replaced(hub):
    """It is a script's variable that was not set; with a new key each time its repeats would be new comparisons."""
    hub.answers = [422]
    hub.run("create", *GIVEN, "--idempotency-key", "", code=1)
    assert [body["idempotency_key"] for body in hub.posted] == [""]


def test_a_lost_answer_is_asked_for_once_more_by_the_same_key(hub):
    hub.answers = [None, 200]
    told = hub.run("create", *GIVEN)
    first, second = hub.posted
    assert first == second
    assert f"--idempotency-key {first['idempotency_key']}" in told.stderr
    assert "This key has made this comparison before." in told.stderr


def test_a_key_is_told_before_anything_can_get_lost_and_is_new_each_time(hub):
    hub.answers = [None] * 4
    told = [hub.run("create", *GIVEN, code=1).stderr for _ in range(2)]
    keys = [body["idempotency_key"] for body in hub.posted]
    assert keys[0] == keys[1] != keys[2] == keys[3]
    for text, key in zip(told, (keys[0], keys[2]), strict=True):
        assert text.startswith(f"If no answer comes, repeat the command with --idempotency-key {key}\n")
        assert "cannot be reached" in text


def test_a_creation_as_json_is_the_whole_answer(hub):
    told = hub.run("create", *GIVEN, "--json")
    assert json.loads(told.stdout) == comparison("pending")


def test_every_field_of_a_creation_has_its_option():
    from steelyard.hub.comparisons.schemas import NewComparison  # noqa: PLC0415  # It needs the extra `hub`.

    names = {field.removesuffix("_id") for field in NewComparison.model_fields}
    offered = {str(param.name) for param in create.params}
    assert names - offered == {"project_binding", "consumer_client"}
    assert {"binding", "consumer"} <= offered


def test_a_list_tells_verdicts_at_a_glance(hub):
    lines = hub.run("list").stdout.splitlines()
    assert lines[0].split() == ["id", "status", "created_at", "eligibility", "regressions", "error"]
    assert lines[1].split() == [ID, "completed", "2026-12-01T09:00:00Z", "ineligible", "1", "-"]
    assert lines[2].split() == [identity(8), "pending", "2026-12-01T09:00:00Z", "-", "-", "-"]


def test_show_is_a_screen_and_its_json_is_everything(hub):
    lines = dict(line.split(None, 1) for line in hub.run("show", ID).stdout.splitlines())
    assert lines["version"] == "2"
    assert lines["evaluation_summary.eligibility"] == "ineligible"
    assert lines["pins.candidate.deployment.slug"] == "new"
    assert "pins" not in lines
    assert json.loads(hub.run("show", ID, "--json").stdout) == completed()


def test_a_cancel_names_the_version(hub):
    assert "Missing option '--expected-version'" in hub.run("cancel", ID, code=2).stderr
    hub.run("cancel", ID, "--expected-version", "2")
    assert hub.posted == [{"expected_version": 2}]


@pytest.mark.parametrize("form", FORMATS)
def test_a_report_is_written_where_it_is_wanted(hub, form, tmp_path):
    path = tmp_path / "report"
    path.write_text("x" * 100_000)
    told = hub.run("report", ID, "--format", form, "-o", str(path))
    assert told.output == ""
    assert path.read_bytes() == hub.run("report", ID, "--format", form).stdout_bytes


def test_a_report_is_text_unless_another_format_is_asked_for(hub):
    assert hub.run("report", ID).stdout.startswith("old against new: ineligible\n")
    offered = next(param.type for param in report.params if param.name == "report_format")
    assert list(offered.choices) == list(FORMATS)  # type: ignore[attr-defined]


def test_a_report_of_a_comparison_without_a_result_asks_for_no_cases(hub):
    del hub.things[f"selected-model-comparisons/{ID}/cases"]
    assert "There is no evaluation." in hub.run("report", identity(8)).stdout


def test_a_file_that_cannot_be_written_is_one_sentence(hub, tmp_path):
    told = hub.run("report", ID, "-o", str(tmp_path / "none" / "report"), code=2)
    assert "cannot be written: No such file" in told.stderr


@pytest.mark.parametrize(("eligibility", "code"), [("eligible", 0), ("ineligible", 3), ("inconclusive", 3)])
def test_a_script_can_stop_unless_the_candidate_is_eligible(hub, eligibility, code):
    hub.things["selected-model-comparisons"][0] = completed(eligibility=eligibility)
    told = hub.run("report", ID, "--fail-unless-eligible", code=code)
    assert told.stdout.startswith("old against new: ")
    assert told.stderr == ("The candidate is not eligible.\n" if code else "")
    hub.run("report", ID)


def test_a_comparison_that_is_not_over_is_not_eligible(hub):
    hub.run("report", identity(8), "--fail-unless-eligible", code=3)


def test_an_unknown_comparison_is_the_hubs_no(hub):
    assert "No comparison has this id [UNKNOWN_THING]" in hub.run("report", identity(99), code=1).stderr


@pytest.mark.parametrize("command", ["show", "report", "unjudged"])
def test_a_part_of_an_id_is_told_to_be_none(hub, command):
    assert "give the whole id" in hub.run(command, ID[:8], code=1).stderr


def test_what_nobody_has_judged_is_told_as_json_lines(hub, tmp_path):
    told = hub.run("unjudged", ID)
    entries = [json.loads(line) for line in told.stdout.splitlines()]
    assert [entry["chunk_id"] for entry in entries] == ["faq-9", "ship-2", "order-9", "order-3"]
    assert entries[0] == {
        "case_id": identity(101), "query": "How do I get a refund?", "chunk_id": "faq-9", "document_id": "faq",
        "ranks": {"current": 2},
    }  # fmt: skip
    assert told.stderr == "4 to judge.\n"
    path = tmp_path / "judge.jsonl"
    assert hub.run("unjudged", ID, "--format", "jsonl", "-o", str(path)).stdout == ""
    assert path.read_text("utf-8") == told.stdout


def test_only_what_counted_is_to_judge(hub):
    hub.things["suite-revisions"][2]["retrieval_settings"] = {"top_k": 1}
    told = hub.run("unjudged", ID)
    assert [json.loads(line)["chunk_id"] for line in told.stdout.splitlines()] == ["ship-2", "order-9"]


def test_where_there_are_no_results_there_is_nothing_to_judge(hub):
    told = hub.run("unjudged", identity(8), code=1)
    assert told.stderr == "Error: The comparison is pending and has no results\n"
