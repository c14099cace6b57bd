"""The gateway before two real embedding servers, driven by the official client."""

from __future__ import annotations

import asyncio
import base64
import struct
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import httpx2
import openai
import pytest
from tests.gateway.serving import WAIT_S, serving
from tests.gateway.world import make_world

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.gateway.serving import Served

TEXTS = ["Where is my parcel?", "The invoice was charged twice.", "Größe"]
TOO_LONG = "parcel " * 600
LLAMA_DIMENSION = 576
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
    with serving(world) as served, served.openai() as client:
        with pytest.raises(openai.InternalServerError) as refused:
            client.embeddings.create(model="stable", input="a")
    assert "576 dimensions, and the deployment's have 384" in str(refused.value)
    assert world.row()["error_code"] == "wrong_dimension"
