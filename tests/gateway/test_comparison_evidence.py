"""A whole comparison whose evidence are the gateway's real requests, sent with the official client."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from tests.comparing import PATH, REVISION
from tests.gateway.serving import serving
from tests.gateway.world import make_world
from tests.hub_api import CORPUS, revision

from steelyard.hub.credentials.service import issue
from steelyard.hub.principal import LOCAL

if TYPE_CHECKING:
    from collections.abc import Callable

    from httpx2 import Response
    from tests.gateway.serving import Served

ROUTES = {"current": "stable", "candidate": "next"}


class Consumer:
    """Carries a comparison out over HTTP, as a project's program does."""

    def __init__(self, served: Served, *, cases: int = 4) -> None:
        self.served = served
        world = served.world
        with world.database.write() as connection:
            now = world.database.now(connection)
            _credential, secret = issue(connection, role="operator", name="o", actor=LOCAL, now=now)
        self._operator = secret.text
        content = revision(cases)
        self.cases = content["cases"]
        suite = self.order("/suites", project_id=str(world.binding.project_id), slug="faq", name="FAQ")
        imported = self.order(f"/suites/{suite['id']}/revisions", **content)
        self.comparison = self.order(
            PATH,
            project_binding_id=str(world.binding.id),
            consumer_client_id=str(world.client.id),
            suite_revision_id=imported["id"],
            current_deployment_id=str(world.current.id),
            candidate_deployment_id=str(world.candidate.id),
            candidate_route_id=str(world.next_route.id),
            corpus_sha256=CORPUS,
            retrieval_config_sha256=imported["retrieval_config_sha256"],
            current_index_ref="old",
            candidate_index_ref="new",
            idempotency_key="one-attempt",
        )
        self.claim = self.call("claim").json()

    def order(self, path: str, **body: Any) -> Any:
        """Send one call of the operator's, and return what it made."""
        answer = self.served.ask("POST", f"/api/v1{path}", secret=self._operator, json=body)
        assert answer.status_code == 201, answer.text
        return answer.json()

    def call(self, name: str, **body: Any) -> Response:
        """Send one call of the consumer's."""
        path = f"/api/v1{PATH}/{self.comparison['id']}/{name}"
        return self.served.ask("POST", path, json=body or None)

    def embed(self, texts: str | list[str], *, model: str, **extra: Any) -> str:
        """Embed with the official client, and return the request's public id."""
        with self.served.openai() as client:
            answer = client.embeddings.with_raw_response.create(model=model, input=texts, extra_body=extra or None)
        return str(answer.headers["x-request-id"])

    def evidence(self, leg: str) -> dict[str, str]:
        """Embed each case's query alone through the route of *leg*."""
        return {case["case_id"]: self.embed(case["query"], model=ROUTES[leg]) for case in self.claim["cases"]}

    def result(self) -> dict[str, Any]:
        """Do the work, and return the result."""
        ranked = [{"chunk_id": "chunk-1", "document_id": "doc-1", "score": 0.9}, {"chunk_id": "chunk-2", "score": 0.4}]
        leg = {
            "results": [
                {"case_id": case["case_id"], "ranked_results": ranked, "latency_ms": 3.5}
                for case in self.claim["cases"]
            ]
        }
        return {
            "claim_token": self.claim["claim_token"],
            "pins_digest": self.claim["comparison"]["pins_digest"],
            "consumer_revision_sha256": REVISION,
            "current": leg,
            "candidate": leg,
            **{f"{leg}_gateway_requests": self.evidence(leg) for leg in ROUTES},
        }

    def publish(self, **fields: Any) -> Response:
        """Do the work, and publish its result with the last fields instead."""
        return self.call("result", **{**self.result(), **fields})


def test_a_comparison_is_carried_out_through_the_gateway(served, upstream):
    consumer = Consumer(served)
    result = consumer.result()
    beat = {"current_completed_cases": 4, "candidate_completed_cases": 4}
    assert consumer.call("progress", claim_token=result["claim_token"], **beat).status_code == 200
    done = consumer.call("result", **result)
    assert done.status_code == 200, done.text
    assert done.json()["status"] == "completed"
    assert done.json()["evaluation_summary"]["metric_deltas"]["ndcg"]["delta"] == 0
    assert [asked["input"] for asked in upstream.asked] == [[case["query"]] for case in consumer.cases] * 2
    rows = {row["request_id"]: row for row in served.world.rows()}
    cases = served.ask(
        "GET", f"/api/v1{PATH}/{consumer.comparison['id']}/cases", secret=served.world.viewer_secret
    ).json()["items"]
    for leg in ROUTES:
        for case in cases:
            row = rows[case[leg]["gateway_request_id"]]
            assert row["request_id"] == result[f"{leg}_gateway_requests"][case["case_id"]]
            assert case[leg]["gateway_latency_ms"] == pytest.approx(row["latency_ms"])
    again = consumer.call("result", **result)
    assert (again.status_code, again.json()) == (200, done.json())


WRONG: dict[str, tuple[str, Callable[[Consumer, str], str]]] = {
    "the other leg's model": ("EVIDENCE_WRONG_ROUTE", lambda consumer, text: consumer.embed(text, model="stable")),
    "a document": (
        "EVIDENCE_WRONG_INPUT", lambda consumer, text: consumer.embed(text, model="next", input_type="document"),
    ),
    "a prefix": ("EVIDENCE_WRONG_INPUT", lambda consumer, text: consumer.embed(f"query: {text}", model="next")),
    "a space": ("EVIDENCE_WRONG_INPUT", lambda consumer, text: consumer.embed(f"{text} ", model="next")),
    "two inputs": ("EVIDENCE_NOT_SINGLE", lambda consumer, text: consumer.embed([text, text], model="next")),
    "nobody's id": ("EVIDENCE_UNKNOWN", lambda _consumer, _text: "0" * 32),
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG)
def test_one_request_that_was_sent_otherwise_is_refused_and_the_right_one_taken(served, name):
    code, embed = WRONG[name]
    consumer = Consumer(served)
    result = consumer.result()
    right = result["candidate_gateway_requests"]
    case = consumer.cases[2]
    wrong = {**right, case["case_id"]: embed(consumer, case["query"])}
    answer = consumer.call("result", **{**result, "candidate_gateway_requests": wrong})
    assert (answer.status_code, answer.json()["code"]) == (422, code)
    [error] = answer.json()["errors"]
    assert error["where"] == f"body.candidate_gateway_requests.{case['case_id']}"
    assert consumer.call("result", **result).json()["status"] == "completed"


def test_a_list_of_one_text_is_the_text_alone(served):
    consumer = Consumer(served)
    result = consumer.result()
    case = consumer.cases[0]
    listed = {**result["current_gateway_requests"], case["case_id"]: consumer.embed([case["query"]], model="stable")}
    assert consumer.call("result", **{**result, "current_gateway_requests": listed}).json()["status"] == "completed"


def test_a_request_that_failed_upstream_is_none_and_its_repeat_is(served, upstream):
    consumer = Consumer(served)
    result = consumer.result()
    case = consumer.cases[1]
    good, upstream.reply = upstream.reply, lambda handler, _body: handler.json({"error": "broken"}, status=400)
    failed = served.post({"model": "next", "input": case["query"]})
    upstream.reply = good
    assert failed.status_code >= 400
    mapping = {**result["candidate_gateway_requests"], case["case_id"]: failed.headers["x-request-id"]}
    answer = consumer.call("result", **{**result, "candidate_gateway_requests": mapping})
    assert answer.json()["code"] == "EVIDENCE_NOT_COMPLETED"
    mapping[case["case_id"]] = consumer.embed(case["query"], model="next")
    assert consumer.call("result", **{**result, "candidate_gateway_requests": mapping}).json()["status"] == "completed"


def test_a_prompt_that_the_gateway_adds_is_no_prefix_of_the_consumers(database, upstream):
    world = make_world(database, base_url=upstream.url, identity={"query_prompt": "query: "})
    with serving(world) as served:
        consumer = Consumer(served, cases=1)
        assert consumer.publish().json()["status"] == "completed"
    assert [asked["input"] for asked in upstream.asked] == [["query: Question 0?"]] * 2
