"""The gateway before two real embedding servers, driven by the official client."""

from __future__ import annotations

import asyncio
import base64
import os
import re
import struct
import subprocess
import sys
import threading
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import httpx2
import openai
import pytest
from openai import OpenAI
from tests.gateway.serving import WAIT_S, serving
from tests.gateway.world import make_world

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.gateway.serving import Served

    from steelyard.hub.db.database import Database

TEXTS = ["Where is my parcel?", "The invoice was charged twice.", "Größe"]
TOO_LONG = "parcel " * 600
LLAMA_DIMENSION = 576
KEY = "embed-server-key-0123456789-abcdefghij"
MODEL = "all-minilm-l6-v2-int8"
TOLERANCE = 0.02  # llama.cpp rounds differently where texts share a batch.


@pytest.fixture(scope="session")
def llama_url(weights) -> Iterator[str]:
    """The address of llama.cpp's server, which embeds with a small language model and mean pooling."""
    command = [sys.executable, str(Path(__file__).with_name("llama_server.py")), str(weights("smollm2-135m"))]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as process:
        assert process.stdout is not None
        yield f"{process.stdout.readline().strip()}/v1"
        process.kill()


@pytest.fixture
def before_llama(database, llama_url) -> Iterator[Served]:
    world = make_world(
        database,
        base_url=llama_url,
        runtime={"timeout_s": 60.0},
        identity={"dimension": LLAMA_DIMENSION, "query_prompt": "query: "},
    )
    with serving(world) as served:
        yield served


@pytest.fixture(scope="session")
def embed_url(weights) -> Iterator[str]:
    """The address of `steelyard embed serve`."""
    weights(MODEL)
    environ = {name: value for name, value in os.environ.items() if not name.startswith("STEELYARD_")}
    environ |= {"STEELYARD_EMBED_API_TOKEN": KEY, "STEELYARD_EMBED_MODEL": MODEL, "STEELYARD_EMBED_THREADS": "1"}
    command = [str(Path(sys.executable).with_name("steelyard")), "embed", "serve", "--bind", "127.0.0.1:0"]
    with subprocess.Popen(command, env=environ, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        log = process.stderr
        address = next(found[0] for line in log if (found := re.search(r"http://[\d.:]+", line)))
        threading.Thread(target=log.read).start()  # A full pipe would block the server.
        yield f"{address}/v1"
        process.kill()


@contextmanager
def before_embed(database: Database, url: str, **deployment: object) -> Iterator[Served]:
    """Serve the hub before `steelyard embed serve`."""
    world = make_world(
        database,
        base_url=url,
        runtime={"kind": "steelyard", "on_overlong": "reports", "key_variable": "STEELYARD_UPSTREAM_EMBED"},
        identity={"dimension": 384, "max_length": 256},
        deployment={"served_model": MODEL, **deployment},
    )
    with serving(world, environ={"STEELYARD_UPSTREAM_EMBED": KEY}) as served:
        yield served


def test_our_own_server_embeds_through_the_gateway_in_every_way_of_the_official_client(database, embed_url):
    with before_embed(database, embed_url) as served, served.openai() as client:
        default = client.embeddings.create(model="stable", input=TEXTS)
        floats = client.embeddings.create(model="next", input=TEXTS[0], encoding_format="float").data[0].embedding
        with OpenAI(base_url=embed_url, api_key=KEY, http_client=httpx2.Client(trust_env=False)) as bare:
            expected = bare.embeddings.create(model=MODEL, input=TEXTS[0]).data[0].embedding
    for vector in (default.data[0].embedding, floats):
        assert vector == pytest.approx(expected, abs=1e-4)
    first, second = served.world.rows()
    assert (first["status"], first["input_count"], first["is_truncated"]) == ("completed", 3, False)
    assert first["tokens"] == default.usage.prompt_tokens > second["tokens"] > 0


def test_our_own_server_refuses_a_text_that_is_too_long(database, embed_url):
    with before_embed(database, embed_url) as served, served.openai() as client:
        with pytest.raises(openai.UnprocessableEntityError) as refused:
            client.embeddings.create(model="stable", input=["short", TOO_LONG])
        assert refused.value.code == "input_too_long"
        assert served.world.row()["error_code"] == "input_too_long"


def test_our_own_server_cuts_a_text_where_the_deployment_allows_it_and_the_row_says_so(database, embed_url):
    with before_embed(database, embed_url, allows_truncation=True) as served, served.openai() as client:
        client.embeddings.create(model="stable", input=TOO_LONG)
        client.embeddings.create(model="stable", input="short")
    assert [row["is_truncated"] for row in served.world.rows()] == [True, False]


def directly(url: str, text: str) -> list[float]:
    """Ask the embedding server itself."""
    with httpx2.Client(trust_env=False, timeout=WAIT_S) as client:
        answer = client.post(f"{url}/embeddings", json={"model": "m", "input": text})
    vector: list[float] = answer.json()["data"][0]["embedding"]
    return vector


def test_llamacpp_embeds_through_the_gateway_in_every_way_of_the_official_client(before_llama, llama_url):
    with before_llama.openai() as client:
        default = client.embeddings.create(model="stable", input=TEXTS).data
        floats = client.embeddings.create(model="next", input=TEXTS[0], encoding_format="float").data
        text = client.embeddings.create(model="stable", input=TEXTS[0], encoding_format="base64").data[0].embedding
    alone = list(struct.unpack(f"<{LLAMA_DIMENSION}f", base64.b64decode(str(text))))
    expected = directly(llama_url, f"query: {TEXTS[0]}")
    for vector in (default[0].embedding, floats[0].embedding, alone):
        assert vector == pytest.approx(expected, abs=TOLERANCE)
    assert default[0].embedding != pytest.approx(default[1].embedding, abs=TOLERANCE)
    rows = before_llama.world.rows()
    assert [(row["status"], row["is_truncated"]) for row in rows] == [("completed", False)] * 3
    assert all(row["tokens"] > 0 and row["latency_ms"] > 0 for row in rows)


def test_llamacpp_embeds_for_many_asynchronous_calls_at_once(before_llama):
    async def embed() -> list[str]:
        async with before_llama.async_openai() as client:
            calls = [client.embeddings.with_raw_response.create(model="stable", input=t) for t in TEXTS * 4]
            return [answer.headers["x-request-id"] for answer in await asyncio.gather(*calls)]

    ids = asyncio.run(embed())
    assert {(row["request_id"], row["status"]) for row in before_llama.world.rows()} == {(i, "completed") for i in ids}


def test_llamacpp_refuses_a_text_that_is_too_long_and_the_caller_learns_why(before_llama):
    with before_llama.openai() as client, pytest.raises(openai.UnprocessableEntityError) as refused:
        client.embeddings.create(model="stable", input=TOO_LONG)
    assert refused.value.code == "input_too_long"
    assert before_llama.world.row()["error_code"] == "input_too_long"


def test_a_wrong_dimension_of_the_identity_is_found_at_the_first_call(database, llama_url):
    world = make_world(database, base_url=llama_url, identity={"dimension": 384})
    with serving(world) as served:
        answer = served.post({"model": "stable", "input": "a"})
    assert answer.status_code == 502
    assert answer.headers["x-should-retry"] == "false"
    assert "576 dimensions, and the deployment's have 384" in answer.json()["error"]["message"]
    assert world.row()["error_code"] == "wrong_dimension"
