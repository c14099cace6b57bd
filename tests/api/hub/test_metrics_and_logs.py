"""Metrics have few labels, and neither they nor the log hold an id, a query or a secret."""

from __future__ import annotations

import logging
import re

from prometheus_client.parser import text_string_to_metric_families

NOWHERE = "00000000-0000-4000-8000-000000000000"


def labels(viewer):
    text = viewer.client.get("/metrics", headers={"Authorization": f"Bearer {viewer.secret}"}).text
    families = {family.name: family for family in text_string_to_metric_families(text)}
    return {
        (sample.labels["path"], sample.labels["status"]): sample.value
        for sample in families["steelyard_hub_requests"].samples
        if sample.name.endswith("_total")
    }


def test_every_path_has_its_own_label_whoever_asks_and_whatever_comes_of_it(asked, viewer, operator):
    for path in ("/projects", f"/projects/{NOWHERE}", "/projects/abc", f"/routes/{NOWHERE}/activate", "/nothing"):
        viewer.get(path)
        asked.ask("GET", f"/api/v1{path}")
    operator.post("/projects", slug="a", name="A")
    asked.ask("GET", "/v1/models", headers={"Authorization": f"Bearer {viewer.secret}"})
    assert labels(viewer) == {
        ("/api/v1/projects", "200"): 1,
        ("/api/v1/projects", "201"): 1,
        ("/api/v1/projects", "401"): 1,
        ("/api/v1/projects/{thing_id}", "404"): 1,
        ("/api/v1/projects/{thing_id}", "401"): 1,
        ("/api/v1/routes/{thing_id}/activate", "405"): 1,
        ("/api/v1/routes/{thing_id}/activate", "401"): 1,
        ("other", "404"): 2,
        ("other", "401"): 2,
        ("/v1/models", "403"): 1,
    }


def test_labels_are_bounded_by_the_document(asked, viewer):
    for method, path in (("GET", f"/{number}") for number in range(200)):
        asked.ask(method, path)
    paths = {path for path, _ in labels(viewer)}
    assert paths <= {*asked.hub.document["paths"], "other"}
    assert len(paths) < 5


def test_the_log_has_the_requests_id_and_its_label_and_no_query_id_or_secret(asked, operator, caplog):
    caplog.set_level(logging.DEBUG)
    answer = operator.get("/projects", slug="hunter2", steelyard_secret="hunter3")
    issued = operator.make("/credentials", role="viewer", name="hunter4")
    operator.get(f"/projects/{NOWHERE}")
    lines = [record.getMessage() for record in caplog.records if not record.name.startswith("httpx2")]  # Our client's.
    [line] = [line for line in lines if answer.headers["x-request-id"] in line]
    assert re.fullmatch(rf"{answer.headers['x-request-id']} GET /api/v1/projects 422 [0-9.]+ ms", line)
    for secret in ("hunter", issued["secret"], operator.secret, NOWHERE):
        assert secret not in "\n".join(lines)
