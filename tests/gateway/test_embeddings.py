"""The gateway end to end: the official client, the hub on a port, an embedding server on another, the row."""

from __future__ import annotations

import asyncio
import base64
import json
import socket
import struct
import threading
from typing import TYPE_CHECKING, Any

import httpx2
import openai
import pytest
from tests.gateway.serving import WAIT_S, serving
from tests.gateway.upstreams import answer_to, vector_of
from tests.gateway.world import make_world

from steelyard.hall.canonical import sha256_of_json

if TYPE_CHECKING:
    from collections.abc import Callable

TEXTS = ["Where is my parcel?", "Größe", "𝔘"]


def test_the_official_client_embeds_a_text_and_the_row_is_completed(served, upstream):
    with served.openai() as client:
        answer = client.embeddings.with_raw_response.create(model="stable", input=TEXTS[0])
    embeddings = answer.parse()
    assert [item.embedding for item in embeddings.data] == [vector_of(TEXTS[0])]
    assert (embeddings.model, embeddings.usage.prompt_tokens, embeddings.usage.total_tokens) == ("stable", 19, 19)
    row = served.world.row()
    assert row["request_id"] == answer.headers["x-request-id"]
    assert (row["status"], row["tokens"], row["is_truncated"], row["error_code"]) == ("completed", 19, False, None)
    assert (row["input_sha256"], row["input_count"]) == (sha256_of_json([TEXTS[0]]), 1)
    assert (row["input_type"], row["capability"]) == ("query", "rag.embedding@1")
    assert (row["deployment_id"], row["credential_id"]) == (served.world.current.id, served.world.credential_id)
    assert row["started_at"] <= row["completed_at"]
    assert upstream.headers[0]["x-request-id"] == row["request_id"]


@pytest.mark.parametrize("encoding_format", ["float", "base64"])
def test_both_encodings_are_one_vector(served, encoding_format):
    with served.openai() as client:
        answer = client.embeddings.create(model="stable", input=TEXTS, encoding_format=encoding_format)
    found = [item.embedding for item in answer.data]
    if encoding_format == "base64":  # Asked for by name, the client hands it on as it is.
        found = [list(struct.unpack("<4f", base64.b64decode(text))) for text in found]
    assert found == [vector_of(text) for text in TEXTS]
    assert [item.index for item in answer.data] == [0, 1, 2]


def test_the_asynchronous_client_embeds_at_once_and_every_answer_has_its_row(served):
    async def embed() -> list[str]:
        async with served.async_openai() as client:
            calls = [
                client.embeddings.with_raw_response.create(model="stable", input=f"text {number}")
                for number in range(40)
            ]
            answers = await asyncio.gather(*calls)
        for number, answer in enumerate(answers):
            assert answer.parse().data[0].embedding == vector_of(f"text {number}")
        return [answer.headers["x-request-id"] for answer in answers]

    ids = asyncio.run(embed())
    rows = served.world.rows()
    assert sorted(ids) == sorted(row["request_id"] for row in rows)
    assert {row["status"] for row in rows} == {"completed"}


def test_the_inputs_type_adds_the_identitys_prompt_and_the_digest_is_without_it(database, upstream):
    world = make_world(
        database, base_url=upstream.url, identity={"query_prompt": "query: ", "document_prompt": "passage: "}
    )
    with serving(world) as served:
        for input_type in ("query", "document"):
            served.post({"model": "stable", "input": ["a", "b"], "input_type": input_type})
    assert [asked["input"] for asked in upstream.asked] == [["query: a", "query: b"], ["passage: a", "passage: b"]]
    assert [row["input_type"] for row in world.rows()] == ["query", "document"]
    assert {row["input_sha256"] for row in world.rows()} == {sha256_of_json(["a", "b"])}


def test_each_route_leads_to_its_deployment_and_the_stable_one_follows_the_pointer(served):
    world = served.world
    served.post({"model": "stable", "input": "a"})
    served.post({"model": "next", "input": "a"})
    world.change("activate_route", world.next_route.id, is_active=False, expected_version=1)
    world.change("set_stage", world.candidate.id, "production", expected_version=1)
    world.change("set_current", world.binding.id, world.candidate.id, expected_version=2)
    served.post({"model": "stable", "input": "a"})
    current, candidate = world.current.id, world.candidate.id
    assert [row["deployment_id"] for row in world.rows()] == [current, candidate, candidate]


def test_the_models_are_the_clients_active_routes(served):
    with served.openai() as client:
        assert [(m.id, m.object, m.owned_by) for m in client.models.list()] == [
            ("stable", "model", "shop"), ("next", "model", "shop"),
        ]  # fmt: skip
        served.world.change("activate_route", served.world.next_route.id, is_active=False, expected_version=1)
        assert [model.id for model in client.models.list()] == ["stable"]
        served.world.change("activate_binding", served.world.binding.id, is_active=False, expected_version=2)
        assert client.models.list().data == []


@pytest.mark.parametrize("model", ["nothing", "Stable", "a\x00b", "x" * 300])
def test_an_unknown_model_is_a_404_without_a_row(served, model):
    with served.openai() as client, pytest.raises(openai.NotFoundError) as refused:
        client.embeddings.create(model=model, input="a")
    assert (refused.value.code, refused.value.param) == ("model_not_found", "model")
    assert served.world.rows() == []


def test_a_binding_or_route_that_is_not_active_is_a_404_that_says_so(served):
    world = served.world
    world.change("activate_route", world.next_route.id, is_active=False, expected_version=1)
    assert "route that is not active" in served.post({"model": "next", "input": "a"}).json()["error"]["message"]
    world.change("activate_binding", world.binding.id, is_active=False, expected_version=2)
    answer = served.post({"model": "stable", "input": "a"})
    assert answer.status_code == 404
    assert "binding is not active" in answer.json()["error"]["message"]


def test_other_roles_are_a_403_and_no_credential_a_401_in_openais_shape(served):
    viewer = served.post({"model": "stable", "input": "a"}, secret=served.world.viewer_secret)
    nobody = served.post({"model": "stable", "input": "a"}, secret="wrong")
    assert (viewer.status_code, viewer.json()["error"]["type"]) == (403, "permission_error")
    assert (nobody.status_code, nobody.json()["error"]["type"]) == (401, "authentication_error")
    assert served.ask("GET", "/v1/models", secret=served.world.viewer_secret).status_code == 403
    with served.openai() as client, pytest.raises(openai.AuthenticationError):
        client.with_options(api_key="wrong").embeddings.create(model="stable", input="a")


@pytest.mark.parametrize(("method", "path", "status"), [("GET", "/v1/embeddings", 405), ("GET", "/v1/other", 404)])
def test_the_routers_refusals_have_openais_shape_too(served, method, path, status):
    answer = served.ask(method, path)
    assert answer.status_code == status
    assert set(answer.json()["error"]) == {"message", "type", "param", "code"}


@pytest.mark.parametrize(
    ("content", "status"),
    [(b"{", 422), (b'{"model": "stable", "input": NaN}', 422), (b"[]", 422), (b" " * 3000, 413)],
)
def test_a_body_that_cannot_be_taken_has_no_row(world, content, status):
    with serving(world, max_body_bytes=2000) as served:
        answer = served.ask("POST", "/v1/embeddings", content=content)
    assert answer.status_code == status
    assert "error" in answer.json()
    assert world.rows() == []


def test_another_dimension_than_the_identitys_is_a_422_without_a_row(served):
    with served.openai() as client:
        assert client.embeddings.create(model="stable", input="a", dimensions=4).data
        with pytest.raises(openai.UnprocessableEntityError) as refused:
            client.embeddings.create(model="stable", input="a", dimensions=2)
    assert refused.value.param == "dimensions"
    assert len(served.world.rows()) == 1


def test_token_arrays_are_a_422(served):
    with served.openai() as client, pytest.raises(openai.UnprocessableEntityError, match="no token arrays"):
        client.embeddings.create(model="stable", input=[[1, 2, 3]])


class Held:
    """An embedding server that answers once it is let go."""

    def __init__(self) -> None:
        self.has_begun = threading.Semaphore(0)
        self.release = threading.Event()

    def reply(self, handler, body) -> None:
        self.has_begun.release()
        self.release.wait(WAIT_S)
        handler.json(answer_to(body))


@pytest.fixture
def held(upstream):
    held = Held()
    upstream.then(held.reply)
    yield held
    held.release.set()


def in_thread(call: Callable[[], object]) -> threading.Thread:
    thread = threading.Thread(target=call)
    thread.start()
    return thread


def test_one_request_more_than_the_limit_is_a_429(world, held):
    with serving(world, max_in_progress=1) as served:
        thread = in_thread(lambda: served.post({"model": "stable", "input": "a"}))
        assert held.has_begun.acquire(timeout=WAIT_S)
        refused = served.post({"model": "stable", "input": "a"})
        held.release.set()
        thread.join()
        assert served.post({"model": "stable", "input": "a"}).status_code == 200
    assert (refused.status_code, refused.headers["retry-after"]) == (429, "1")
    assert refused.json()["error"]["code"] == "busy"


def test_the_row_is_there_and_started_while_the_embedding_server_works(served, held):
    thread = in_thread(lambda: served.post({"model": "stable", "input": "a"}))
    assert held.has_begun.acquire(timeout=WAIT_S)
    row = served.world.row()
    assert (row["status"], row["completed_at"], row["latency_ms"]) == ("started", None, None)
    held.release.set()
    thread.join()
    assert served.world.row()["status"] == "completed"


def test_a_client_that_hangs_up_leaves_a_row_that_tells_how_its_call_ended(world, held):
    with serving(world) as served:
        body = json.dumps({"model": "stable", "input": "a"}).encode()
        head = (
            f"POST /v1/embeddings HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {world.secret}\r\n"
            f"Content-Length: {len(body)}\r\n\r\n"
        )
        url = httpx2.URL(served.url)
        with socket.create_connection((url.host, url.port or 0)) as raw:
            raw.sendall(head.encode() + body)
            assert held.has_begun.acquire(timeout=WAIT_S)
        assert served.hub.admission.in_progress == 1
        held.release.set()
    assert served.hub.admission.in_progress == 0
    assert world.row()["status"] == "completed"


TRUNCATION: list[tuple[str, bool, dict[str, Any], int, str | None, bool | None]] = [
    # on_overlong, allows, what the server answers, status, code, is_truncated
    ("refuses", False, {}, 200, None, False),
    ("reports", False, {"usage": {"prompt_tokens": 9, "truncated": []}}, 200, None, False),
    ("reports", False, {"usage": {"prompt_tokens": 9, "truncated": [0]}}, 422, "input_truncated", True),
    ("reports", True, {"usage": {"prompt_tokens": 9, "truncated": [0]}}, 200, None, True),
    ("reports", False, {"usage": {"prompt_tokens": 9}}, 422, "truncation_unknown", None),
    ("truncates", False, {"usage": {"prompt_tokens": 16}}, 422, "input_truncated", True),
    ("truncates", True, {"usage": {"prompt_tokens": 16}}, 200, None, True),
    ("truncates", False, {"usage": {"prompt_tokens": 3}}, 200, None, False),
    ("truncates", False, {"usage": {}}, 422, "truncation_unknown", None),
    ("truncates", True, {"usage": {}}, 200, None, None),
]


@pytest.mark.parametrize("case", TRUNCATION, ids=str)
def test_a_cut_input_is_recorded_and_refused_unless_it_is_allowed(database, upstream, case):
    on_overlong, allows, changes, status, code, is_truncated = case
    upstream.then(lambda handler, body: handler.json(answer_to(body, **changes)))
    world = make_world(
        database, base_url=upstream.url, runtime={"on_overlong": on_overlong}, identity={"max_length": 16},
        deployment={"allows_truncation": allows},
    )  # fmt: skip
    with serving(world) as served:
        answer = served.post({"model": "stable", "input": "a text of more than sixteen bytes"})
    row = world.row()
    assert answer.status_code == status
    assert (row["error_code"], row["is_truncated"]) == (code, is_truncated)
    assert row["tokens"] == changes.get("usage", {"prompt_tokens": 33}).get("prompt_tokens")
    assert upstream.asked[0].get("truncate") == (allows if on_overlong == "reports" else None)


@pytest.mark.parametrize("encoding_format", ["float", "base64"])
def test_as_many_texts_as_the_limit_come_back_in_their_order(served, encoding_format):
    texts = [f"text {number}" for number in range(2048)]
    answer = served.post({"model": "stable", "input": texts, "encoding_format": encoding_format}).json()
    found = [item["embedding"] for item in answer["data"]]
    if encoding_format == "base64":
        found = [list(struct.unpack("<4f", base64.b64decode(text))) for text in found]
    assert found == [vector_of(text) for text in texts]
    assert served.world.row()["input_count"] == 2048
