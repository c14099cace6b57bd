"""The OpenAPI document: a golden file, and what the server does against what the document says."""

from __future__ import annotations

import json
import re
from importlib.metadata import version
from pathlib import Path

import pytest
from starlette.applications import Starlette
from starlette.routing import Route
from tests.api.asgi import DECISION, ROW, Served

from steelyard.decide.api.openapi import openapi_document

GOLDEN = Path(__file__).parent.parent / "golden" / "openapi.json"


def golden_text() -> str:
    """Return the document as the golden file has it; the package's version is not part of the interface."""
    document = openapi_document()
    document["info"] = {**document["info"], "version": "0"}  # type: ignore[dict-item]  # It is an object.
    return json.dumps(document, indent=1, ensure_ascii=False) + "\n"


def test_the_document_is_the_golden_one() -> None:
    """After a wanted change: python -m tests.api.test_openapi."""
    assert golden_text() == GOLDEN.read_text(encoding="utf-8")


def test_the_server_serves_the_document(served: Served) -> None:
    answer = served.client.get("/openapi.json")
    assert answer.json() == openapi_document()
    assert answer.json()["info"]["version"] == version("steelyard")


def test_every_route_is_documented_and_every_documented_path_is_served(served: Served) -> None:
    documented = {(method.upper(), path) for path, item in openapi_document()["paths"].items() for method in item}  # type: ignore[attr-defined]
    served_routes = {
        (method, path)
        for method, path in documented
        if served.client.request(method, path).status_code not in {404, 405}
    }
    assert served_routes == documented
    application = served.server.app._app
    assert isinstance(application, Starlette)
    assert {path for _, path in documented} == {route.path for route in application.routes if isinstance(route, Route)}


def test_every_reference_leads_somewhere() -> None:
    document = openapi_document()
    schemas = document["components"]["schemas"]  # type: ignore[index]
    names = set(re.findall(r'"#/components/schemas/(\w+)"', json.dumps(document)))
    assert names == set(schemas)


@pytest.mark.parametrize("path", ["/decide", "/decide/shared"])
def test_the_examples_are_answered(served: Served, path: str) -> None:
    operation = openapi_document()["paths"][path]["post"]  # type: ignore[index]
    example = operation["requestBody"]["content"]["application/json"]["example"]
    assert served.post(path, example).status_code == 200


@pytest.mark.parametrize(
    ("schema", "path", "body"),
    [
        ("Result", "/decide", ROW),
        ("AveragedResult", "/decide", {**ROW, "orderings": "all"}),
        ("SharedResponse", "/decide/shared", {"state": "s", "decisions": [DECISION]}),
        ("Health", "/health", None),
    ],
)
def test_every_key_of_an_answer_is_documented(served: Served, schema: str, path: str, body: object) -> None:
    answer = served.client.get(path) if body is None else served.post(path, body)
    described = openapi_document()["components"]["schemas"][schema]  # type: ignore[index]
    assert set(answer.json()) <= set(described["properties"])
    assert set(described["required"]) <= set(answer.json())


if __name__ == "__main__":
    GOLDEN.write_text(golden_text(), encoding="utf-8")
