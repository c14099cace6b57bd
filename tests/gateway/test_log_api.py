from __future__ import annotations

import logging
from array import array

import pytest
from sqlalchemy import select
from tests.gateway.upstreams import answer_to

from steelyard.hub.db.tables import metadata
from steelyard.hub.gateway.domain.answers import as_base64

FIELDS = {
    "request_id", "service_client_id", "credential_id", "project_binding_id", "route_id", "deployment_id", "capability",
    "input_type", "input_sha256", "input_count", "started_at", "completed_at", "status", "latency_ms", "tokens",
    "is_truncated", "error_code",
}  # fmt: skip


@pytest.fixture
def logged(served, upstream):
    """A hub whose log has, oldest first: a completed, a completed and a failed request; the second of another route."""
    for model in ("stable", "next"):
        assert served.post({"model": model, "input": "a text that nobody may see"}).status_code == 200
    upstream.then(lambda handler, body: handler.json({}, status=500))
    assert served.post({"model": "stable", "input": "a"}).status_code == 502
    return served


def ask(served, **query):
    return served.ask("GET", "/api/v1/gateway-requests", secret=served.world.viewer_secret, params=query)


def test_the_log_is_read_newest_first_and_has_no_text(logged):
    answer = ask(logged)
    page = answer.json()
    assert [item["status"] for item in page["items"]] == ["failed", "completed", "completed"]
    assert (page["limit"], page["offset"], page["has_more"]) == (50, 0, False)
    assert all(set(item) == FIELDS for item in page["items"])
    assert page["items"][0]["error_code"] == "upstream_failed"
    assert "nobody may see" not in answer.text


def test_neither_text_nor_vector_is_kept_or_logged(served, upstream, caplog):
    text, vector = "a text that nobody may see", [0.123456789, -7.25, 3.5, 11.75]
    data = [{"index": 0, "embedding": vector}]
    upstream.then(
        lambda handler, body: handler.json(answer_to(body, data=data)),
        lambda handler, body: handler.json({"error": text}, status=500),
    )
    with caplog.at_level(logging.INFO):
        statuses = [served.post({"model": "stable", "input": text}).status_code for _ in range(2)]
    assert statuses == [200, 502]
    with served.world.database.read() as connection:
        everything = str([connection.execute(select(table)).all() for table in metadata.tables.values()])
    told = everything + caplog.text
    assert served.world.rows()[0]["request_id"] in told
    for secret in (text, "nobody may see", "0.1234", "-7.25", as_base64(array("f", vector))):
        assert secret not in told


def test_pages_follow_each_other(logged):
    first, second = ask(logged, limit=2).json(), ask(logged, limit=2, offset=2).json()
    assert (first["has_more"], second["has_more"]) == (True, False)
    ids = [item["request_id"] for item in first["items"] + second["items"]]
    assert ids == [row["request_id"] for row in reversed(logged.world.rows())]


def test_each_filter_finds_its_own(logged):
    world = logged.world
    first, second, third = world.rows()

    def found(**query) -> list[str]:
        return [item["request_id"] for item in ask(logged, **query).json()["items"]]

    all_ids = [row["request_id"] for row in (third, second, first)]
    assert found(service_client_id=world.client.id) == found(project_binding_id=world.binding.id) == all_ids
    assert found(route_id=world.next_route.id) == found(deployment_id=world.candidate.id) == [second["request_id"]]
    assert found(status="failed") == [third["request_id"]]
    assert found(request_id=first["request_id"]) == [first["request_id"]]
    assert found(started_since=second["started_at"].isoformat()) == all_ids[:2]
    assert found(started_until=second["started_at"].isoformat()) == all_ids[2:]
    assert found(service_client_id=world.binding.id) == []


@pytest.mark.parametrize(
    "query",
    [{"limit": 0}, {"limit": 101}, {"offset": 10_001}, {"status": "done"}, {"request_id": "x"}, {"color": "red"},
     {"started_since": "2026-11-30T10:00:00"}, {"started_since": "0001-01-01T00:00:00+14:00"},
     {"started_until": "9999-12-31T23:59:59-14:00"}],
)  # fmt: skip
def test_a_query_out_of_range_is_a_422(logged, query):
    answer = ask(logged, **query)
    assert (answer.status_code, answer.json()["code"]) == (422, "INVALID_REQUEST")


def test_a_service_client_may_not_read_the_log(served):
    assert served.ask("GET", "/api/v1/gateway-requests").status_code == 403
