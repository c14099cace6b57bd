"""The embedding server's endpoints: answers, errors in OpenAI's shape, limits, metrics and the log."""

from __future__ import annotations

import base64
import gzip
import json
import logging
import struct
from contextlib import ExitStack
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from starlette.routing import Route
from tests.api.asgi import BEARER, exchange
from tests.api.embed_asgi import BODY, serve

from steelyard.embed.api.errors import STATUS_OF, answer_for
from steelyard.embed.api.openapi import openapi_document
from steelyard.embed.domain import errors
from steelyard.hall.errors import SteelyardError
from steelyard.web.errors import RequestRefused

GOLDEN = Path(__file__).parent.parent / "golden" / "embed_openapi.json"
PATH = "/v1/embeddings"


@pytest.fixture
def serving():
    with ExitStack() as stack:

        def start(runtime=None, **values):
            served = serve(runtime, **values)
            stack.callback(served.server.close)
            return served

        yield start


@pytest.fixture
def served(serving):
    return serving()


def error_of(answer) -> dict:
    content = answer.json() if hasattr(answer, "json") else json.loads(answer.body)
    assert list(content) == ["error"]
    assert list(content["error"]) == ["message", "type", "param", "code"]
    inside: dict = content["error"]
    return inside


def test_a_list_of_texts_gets_its_vectors_in_order(served):
    answer = served.embed(input=["a b", "c", "a b"])
    assert answer.status_code == 200
    assert answer.headers["content-type"] == "application/json"
    content = answer.json()
    assert [item["index"] for item in content["data"]] == [0, 1, 2]
    one, other, again = (item["embedding"] for item in content["data"])
    assert one == again != other
    assert content["usage"] == {"prompt_tokens": 11, "total_tokens": 11, "truncated": []}
    assert content["model"] == "fake"


def test_base64_holds_the_same_numbers(served):
    floats = served.embed().json()["data"][0]["embedding"]
    encoded = served.embed(encoding_format="base64").json()["data"][0]["embedding"]
    assert list(struct.unpack(f"<{len(floats)}f", base64.b64decode(encoded))) == floats


def test_too_long_an_input_is_refused_with_its_place_its_tokens_and_the_limit(served):
    answer = served.embed(input=["fine", "word " * 300])
    assert answer.status_code == 422
    error = error_of(answer)
    assert error["message"].startswith("`input[1]` has 302 tokens and the model takes 256;")
    assert (error["type"], error["param"], error["code"]) == ("invalid_request_error", "input", "input_too_long")


def test_on_request_its_beginning_is_embedded_and_the_answer_says_so(served):
    long = "word " * 300
    content = served.embed(input=[long, "fine", long], truncate=True).json()
    assert content["usage"] == {"prompt_tokens": 515, "total_tokens": 515, "truncated": [0, 2]}
    assert content["data"][0]["embedding"] == served.embed(input="word " * 254).json()["data"][0]["embedding"]


def test_a_text_of_very_many_characters_is_cut_on_request_and_the_answer_says_so(served):
    vast = "word " * 20_000
    refused = served.embed(input=["fine", vast])
    assert (refused.status_code, error_of(refused)["code"]) == (422, "input_too_long")
    content = served.embed(input=["fine", vast, "also fine", " " * 70_000], truncate=True).json()
    assert content["usage"] == {"prompt_tokens": 3 + 256 + 4 + 2, "total_tokens": 265, "truncated": [1, 3]}


def test_many_inputs_are_answered_up_to_the_limit(serving):
    served = serving(max_inputs=40, max_batch_rows=3)
    texts = [f"text {number} " + "x " * (number % 7) for number in range(40)]
    together = [item["embedding"] for item in served.embed(input=texts).json()["data"]]
    assert together == [served.embed(input=text).json()["data"][0]["embedding"] for text in texts]
    answer = served.embed(input=[*texts, "one more"])
    assert (answer.status_code, error_of(answer)["code"]) == (422, "invalid_request")


@pytest.mark.parametrize(
    ("marker", "status", "code"),
    [
        ("[fake:failure]", 500, "embedding_failed"),
        ("[fake:nan]", 500, "embedding_failed"),
        ("[fake:out_of_memory]", 503, "out_of_memory"),
    ],
)
def test_a_failure_of_the_model_is_an_error_of_the_server_and_the_next_request_is_served(served, marker, status, code):
    answer = served.embed(input=f"x {marker}")
    assert (answer.status_code, error_of(answer)["code"]) == (status, code)
    assert error_of(answer)["type"] == "server_error"
    assert served.embed().status_code == 200
    assert not served.poisoned.is_set()
    assert f'steelyard_embed_failures_total{{code="{code}"}} 1.0' in served.client.get("/metrics").text


@pytest.mark.parametrize(
    ("method", "path", "status", "code", "kind"),
    [
        ("GET", "/nothing", 404, "not_found", "invalid_request_error"),
        ("GET", PATH, 405, "method_not_allowed", "invalid_request_error"),
        ("GET", f"{PATH}/", 404, "not_found", "invalid_request_error"),
    ],
)
def test_the_routers_refusals_have_openais_shape(served, method, path, status, code, kind):
    answer = served.client.request(method, path)
    error = error_of(answer)
    assert (answer.status_code, error["code"], error["type"], error["param"]) == (status, code, kind, None)


def test_another_model_is_a_404_and_the_served_one_is_listed(served):
    answer = served.embed(model="gpt")
    assert (answer.status_code, error_of(answer)["code"]) == (404, "model_not_found")
    listed = served.client.get("/v1/models").json()
    assert [(entry["id"], entry["object"]) for entry in listed["data"]] == [("fake", "model")]


@pytest.mark.parametrize("path", [PATH, "/v1/models", "/metrics", "/openapi.json", "/nothing"])
def test_everything_but_the_health_needs_the_token(served, path):
    method = "POST" if path == PATH else "GET"
    refused = exchange(served.server.app, path, method=method, headers=())
    assert refused.status == 401
    error = error_of(refused)
    assert (error["type"], error["code"]) == ("authentication_error", "unauthorized")
    assert refused.header(b"www-authenticate") == b"Bearer"
    assert exchange(served.server.app, "/health", method="GET", headers=()).status == 200


def test_a_full_queue_is_a_429_before_the_body_is_read(serving):
    served = serving(max_queue=1)
    with served.server.admission.enter():
        refused = exchange(served.server.app, PATH, chunks=(b"x" * 10,))
    assert (refused.status, refused.read_before_answer) == (429, 0)
    error = error_of(refused)
    assert (error["type"], error["code"]) == ("rate_limit_error", "busy")
    assert refused.header(b"retry-after") == b"1"


def test_bodies_are_limited_decompressed_and_refused_in_openais_shape(serving):
    served = serving(max_body_bytes=100)
    packed = exchange(
        served.server.app,
        PATH,
        headers=(BEARER, (b"content-encoding", b"gzip")),
        chunks=(gzip.compress(json.dumps(BODY).encode()),),
    )
    assert packed.status == 200
    for chunks, headers, status, code in (
        ((b"x" * 101,), (BEARER,), 413, "request_too_large"),
        ((b"{}",), (BEARER, (b"content-encoding", b"br")), 415, "unsupported_encoding"),
        ((b"{",), (BEARER,), 422, "invalid_request"),
    ):
        refused = exchange(served.server.app, PATH, headers=headers, chunks=chunks)
        assert (refused.status, error_of(refused)["code"]) == (status, code)


def test_a_client_that_hangs_up_gets_nothing_and_leaves_its_place(served):
    seen = exchange(served.server.app, PATH, chunks=(json.dumps(BODY).encode(),), hangs_up=True)
    assert seen.status == 0
    assert served.server.admission.in_progress == 0
    assert 'status="499"' in served.client.get("/metrics").text


def test_health_shows_what_is_served_and_ready_turns_when_draining(served):
    health = served.client.get("/health").json()
    assert health["identity"]["model"] == "fake"
    assert health["runtime"]["is_model"] is False
    assert health["queue"] == {"in_progress": 0, "limit": 64, "waiting_rows": 0, "running_seconds": None}
    assert served.client.get("/health?ready").status_code == 200
    served.server.admission.is_draining = True
    assert served.client.get("/health").status_code == 200
    answer = served.client.get("/health?ready")
    assert (answer.status_code, error_of(answer)["code"]) == (503, "not_ready")


def test_the_metrics_count_inputs_tokens_batches_and_padding(served):
    served.embed(input=["a b", "a", "word " * 300], truncate=True)
    text = served.client.get("/metrics").text
    for series in (
        "steelyard_embed_inputs_total 3.0",
        "steelyard_embed_truncated_inputs_total 1.0",
        "steelyard_embed_tokens_total 263.0",
        "steelyard_embed_padding_tokens_total 1.0",
        "steelyard_embed_batch_rows_count 2.0",
        'steelyard_embed_seconds_count{phase="model"} 2.0',
        'steelyard_embed_seconds_count{phase="total"} 1.0',
        "steelyard_embed_waiting_rows 0.0",
        'steelyard_embed_requests_total{path="/v1/embeddings",status="200"} 1.0',
    ):
        assert series in text


def test_the_log_holds_no_text_no_vector_and_no_token(served, caplog):
    caplog.set_level(logging.DEBUG, logger="steelyard")
    vector = served.embed(input="canary").json()["data"][0]["embedding"]
    served.embed(input=["canary one", "canary [fake:failure]"])
    served.embed(input="canary " * 300)
    served.embed(model="canary")
    assert caplog.records
    assert "canary" not in caplog.text
    assert not [x for x in vector if str(x) in caplog.text]


def test_every_error_of_the_room_has_a_status():
    def classes(kind):
        return {kind, *(found for child in kind.__subclasses__() for found in classes(child))}

    for kind in classes(errors.EmbedError) - {errors.EmbedError} | classes(RequestRefused):
        answer = answer_for(kind())
        assert 400 <= answer.status_code < 600
    assert set(STATUS_OF) == classes(errors.EmbedError) - {errors.EmbedError}
    assert answer_for(SteelyardError("?")).status_code == answer_for(ZeroDivisionError()).status_code == 500


def test_the_document_is_the_golden_one():
    """After a wanted change: python -m tests.api.test_embed."""
    assert golden_text() == GOLDEN.read_text(encoding="utf-8")


def test_the_document_names_every_route_and_its_examples_hold(served):
    document = served.client.get("/openapi.json").json()
    assert document == openapi_document()
    assert set(document["paths"]) == {route.path for route in served.server.app._app.routes if isinstance(route, Route)}
    example = document["paths"][PATH]["post"]["requestBody"]["content"]["application/json"]["example"]
    answer = served.embed(**example | {"model": "fake"})
    schema = document["components"]["schemas"]["EmbeddingsResponse"]
    assert set(answer.json()) == set(schema["properties"])
    assert set(answer.json()["usage"]) == set(schema["properties"]["usage"]["properties"])
    health = served.client.get("/health").json()
    assert set(health) == set(document["components"]["schemas"]["Health"]["properties"])


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)
FIELDS = st.sampled_from(["model", "input", "encoding_format", "dimensions", "user", "truncate"])


@pytest.fixture(scope="module")
def target():
    served = serve()
    yield served
    served.server.close()


@settings(max_examples=150)
@given(st.dictionaries(FIELDS, VALUES, max_size=3) | VALUES)
def test_whatever_is_sent_the_server_answers_in_its_shape(target, changes):
    body = {**BODY, **changes} if isinstance(changes, dict) else changes
    answer = exchange(target.server.app, PATH, chunks=(json.dumps(body).encode(),))
    assert answer.status in {200, 404, 422}
    if answer.status != 200:
        error_of(answer)


def golden_text() -> str:
    document = openapi_document()
    document["info"] = {**document["info"], "version": "0"}  # type: ignore[dict-item]  # It is an object.
    return json.dumps(document, indent=1, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    GOLDEN.write_text(golden_text(), encoding="utf-8")
