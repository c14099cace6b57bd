"""The hub's OpenAPI document: a golden file, whole in itself, with examples that are true."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from jsonschema_rs import validator_for
from tests.comparing import make_stage
from tests.hub_api import CORPUS

from steelyard.hub.app import build_document

GOLDEN = Path(__file__).parents[2] / "golden" / "hub-openapi.json"
DOCUMENT = build_document()
OPERATIONS = [
    (method.upper(), path, operation) for path, item in DOCUMENT["paths"].items() for method, operation in item.items()
]
IDS = [operation["operationId"] for _, _, operation in OPERATIONS]


def golden_text() -> str:
    """Return the document as the golden file has it; the package's version is no part of the interface."""
    document = {**DOCUMENT, "info": {**DOCUMENT["info"], "version": "0"}}
    return json.dumps(document, indent=1, ensure_ascii=False) + "\n"


def resolve(part: Any) -> Any:
    while "$ref" in part:
        found: Any = DOCUMENT
        for name in part["$ref"].removeprefix("#/").split("/"):
            found = found[name]
        part = found
    return part


def check(schema: Any, value: object) -> None:
    """Fail unless *value* is what *schema* says."""
    validator_for({**schema, "components": DOCUMENT["components"]}).validate(value)


def test_the_document_is_the_golden_one():
    """After a wanted change: python -m tests.api.hub.test_openapi."""
    assert golden_text() == GOLDEN.read_text(encoding="utf-8")


def test_the_hub_serves_the_document(asked):
    assert asked.ask("GET", "/openapi.json").json() == DOCUMENT


def test_every_served_path_is_documented_and_every_documented_one_served(asked, operator):
    own = {"Authorization": f"Bearer {operator.secret}"}
    for path, item in DOCUMENT["paths"].items():
        real = re.sub(r"\{\w+\}", "00000000-0000-4000-8000-000000000000", path)
        allowed = asked.ask("BREW", real, headers=own).headers["Allow"].split(", ")
        assert {name for name in allowed if name != "HEAD"} == {method.upper() for method in item}


def test_every_operation_has_a_name_of_its_own_and_a_sentence():
    assert len(set(IDS)) == len(IDS)
    for _, _, operation in OPERATIONS:
        assert re.fullmatch(r"[a-z]+(_[a-z]+)+", operation["operationId"])
        assert operation["summary"]
        assert operation["tags"]


def test_nothing_of_fastapis_own_errors_is_left():
    assert "ValidationError" not in json.dumps(DOCUMENT)
    assert not {"HTTPValidationError", "ValidationError"} & set(DOCUMENT["components"]["schemas"])


def test_every_reference_leads_somewhere_and_nothing_is_unused():
    text = json.dumps(DOCUMENT)
    for kind, name in set(re.findall(r'"#/components/(\w+)/([\w@.-]+)"', text)):
        assert name in DOCUMENT["components"][kind]
    for kind, parts in DOCUMENT["components"].items():
        if kind != "securitySchemes":
            for name in parts:
                assert f'"#/components/{kind}/{name}"' in text, (kind, name)


@pytest.mark.parametrize(("method", "path", "operation"), OPERATIONS, ids=IDS)
def test_every_status_that_can_occur_is_declared(method, path, operation):
    statuses = {int(status) for status in operation["responses"]}
    assert statuses >= {400, 429, 500, 503}
    assert (401 in statuses) == (operation.get("security") != [])
    assert (operation.get("security") == []) == (path in ("/health", "/openapi.json"))
    if "requestBody" in operation:
        assert statuses >= {408, 413, 415, 422}
    if "{" in path:
        assert 404 in statuses
    if any(
        parameter["in"] == "query" and parameter["name"] != "ready" for parameter in operation.get("parameters", ())
    ):
        assert 422 in statuses


@pytest.mark.parametrize(("method", "path", "operation"), OPERATIONS, ids=IDS)
def test_every_refusal_is_a_problem_or_has_openais_shape(method, path, operation):
    for status, response in operation["responses"].items():
        if int(status) < 400:
            continue
        is_openai = path.startswith("/v1/") and status != "400"
        assert list(resolve(response)["content"]) == ["application/json" if is_openai else "application/problem+json"]


@pytest.mark.parametrize(("method", "path", "operation"), OPERATIONS, ids=IDS)
def test_every_request_and_every_answer_has_an_example_that_fits(method, path, operation):
    bodies = [operation["requestBody"]] if "requestBody" in operation else []
    bodies += [response for status, response in operation["responses"].items() if int(status) < 300]
    for body in bodies:
        for kind, media in body["content"].items():
            if kind != "application/json" or path == "/openapi.json":
                continue
            schema = resolve(media["schema"])
            examples = [media["example"]] if "example" in media else schema["examples"]
            for example in examples:
                check(schema, example)


@pytest.mark.parametrize(("method", "path", "operation"), OPERATIONS, ids=IDS)
def test_every_path_parameter_is_a_uuid(method, path, operation):
    names = re.findall(r"\{(\w+)\}", path)
    own = [parameter for parameter in operation.get("parameters", ()) if parameter["in"] == "path"]
    assert [parameter["name"] for parameter in own] == names
    assert all(parameter["schema"]["format"] == "uuid" for parameter in own)


def test_every_link_leads_from_a_field_to_an_operation():
    links = [
        (response, link)
        for _, _, operation in OPERATIONS
        for response in operation["responses"].values()
        for link in response.get("links", {}).values()
    ]
    assert len(links) > 25
    for response, link in links:
        assert link["operationId"] in IDS
        schema = resolve(response["content"]["application/json"]["schema"])
        expressions = [*link.get("parameters", {}).values(), *link.get("requestBody", {}).values()]
        assert expressions
        for expression in expressions:
            part = schema
            for name in expression.removeprefix("$response.body#/").split("/"):
                part = resolve(part["properties"][name])


def test_the_examples_of_requests_are_answered_as_the_document_says(asked):
    """In one walk: each example's ids are those of what was made before."""
    stage = make_stage(asked, slug="example")
    operator = stage.operator
    [artifact] = operator.get("/artifacts").json()["items"]
    ids = {
        **stage.ids,
        "artifact_id": artifact["id"],
        "runtime_id": operator.get("/runtimes").json()["items"][0]["id"],
        "embedding_identity_id": operator.get("/embedding-identities").json()["items"][0]["id"],
        "deployment_id": stage.ids["candidate_deployment_id"],
        "corpus_sha256": CORPUS,
        "retrieval_config_sha256": stage.settings_sha256,
    }
    other = operator.make("/projects", slug="other", name="Other")
    for method, path, operation in OPERATIONS:
        if method != "POST" or "{" in path or path.startswith("/v1/"):
            continue
        schema = resolve(operation["requestBody"]["content"]["application/json"]["schema"])
        for example in schema["examples"]:
            body = {name: ids.get(name, value) for name, value in example.items()}
            if path == "/project-bindings" or path.endswith("/project-bindings"):
                body["project_id"] = other["id"]
            answer = operator.post(path.removeprefix("/api/v1"), **body)
            assert answer.status_code in (200, 201), (path, answer.text)
            check(
                resolve(operation["responses"][str(answer.status_code)]["content"]["application/json"]["schema"]),
                answer.json(),
            )


def test_building_it_reads_no_environment_and_no_network(monkeypatch):
    import socket  # noqa: PLC0415

    def refuse(*arguments, **fields):
        raise AssertionError("the network was asked")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    monkeypatch.setenv("FASTAPI_OTEL_AUTO_CONFIGURE", "true")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://192.0.2.1:4318")
    assert build_document() == DOCUMENT


if __name__ == "__main__":
    GOLDEN.write_text(golden_text(), encoding="utf-8")


def test_nothing_is_replaced_or_deleted_and_few_things_change():
    changes = {(method, path) for method, path, _operation in OPERATIONS if method not in ("GET", "HEAD")}
    assert {method for method, _path in changes} == {"POST"}
    assert {path.rpartition("}/")[2] for _method, path in changes if "}" in path} == {
        "activate", "deactivate", "current-deployment", "retire", "stage", "revoke", "credentials", "revisions",
        "cancel", "claim", "progress", "result", "finish",
    }  # fmt: skip
