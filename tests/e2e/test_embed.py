"""The embedding server's process, asked by OpenAI's own client, and how it starts, drains and ends."""

from __future__ import annotations

import json
import math
import signal
import socket
import subprocess
import sys
from contextlib import ExitStack
from functools import partial

import openai
import pytest
from tests import processes
from tests.processes import EMBED_PREFIX, EMBED_SERVE, TOKEN, WAIT_S, environ_of, head_of, read_answer, started

PATH = "/v1/embeddings"
BODY = json.dumps({"model": "fake", "input": "a text"}).encode()
serving = partial(processes.serving, command=EMBED_SERVE, prefix=EMBED_PREFIX)
environ = partial(environ_of, prefix=EMBED_PREFIX)
# A server whose model never embeds again after its first failure.
_POISONED = """
from steelyard.embed import commands, loading
from steelyard.embed.runtimes.fake import FakeRuntime

class Poisoned(FakeRuntime):
    is_dead = False
    def embed(self, rows):
        if self.is_dead:
            raise RuntimeError("the session is broken")
        try:
            return super().embed(rows)
        except RuntimeError:
            self.is_dead = True
            raise

loading.FakeRuntime = Poisoned
commands.serve()
"""


def refusal(**settings) -> tuple[int, str]:
    finished = subprocess.run(
        EMBED_SERVE, env=environ(**settings), capture_output=True, text=True, check=False, timeout=WAIT_S
    )
    return finished.returncode, finished.stderr


@pytest.fixture
def connections():
    with ExitStack() as stack:
        yield stack


@pytest.fixture
def client_of(connections):
    """Give an OpenAI client of a server, closed with the test."""

    def open_client(server, *, api_key=TOKEN):
        client = openai.OpenAI(base_url=f"{server.url}/v1", api_key=api_key, max_retries=0)
        connections.enter_context(client)
        return client

    return open_client


def cosine(one, other):
    return sum(x * y for x, y in zip(one.embedding, other.embedding, strict=True))


def begin(server, connections, body=BODY, *, sent=None):
    """Send a request, or its head and the first *sent* bytes of its body."""
    raw = connections.enter_context(server.connect())
    raw.sendall(head_of("POST", PATH, f"Content-Length: {len(body)}") + body[:sent])
    return raw


def in_progress(count):
    return lambda health: health["queue"]["in_progress"] == count


@pytest.fixture(scope="module", params=["all-minilm-l6-v2-int8", "paraphrase-minilm-l3-v2"])
def real(request, weights):
    """A server of a real model."""
    weights(request.param)
    with serving(model=request.param, threads=1) as server:
        yield server


def test_openais_client_gets_the_same_vectors_as_base64_which_it_asks_for_and_as_floats(real, client_of):
    client = client_of(real)
    model = client.models.list().data[0].id
    texts = ["A man is eating food.", "A man eats a piece of bread.", "How do I reset my password?"]
    packed = client.embeddings.create(model=model, input=texts)
    plain = client.embeddings.create(model=model, input=texts, encoding_format="float", dimensions=384)
    for one, other in zip(packed.data, plain.data, strict=True):
        assert one.index == other.index
        assert len(one.embedding) == 384
        assert math.isclose(math.hypot(*one.embedding), 1, abs_tol=1e-5)
        assert max(abs(x - y) for x, y in zip(one.embedding, other.embedding, strict=True)) < 1e-6
    text, near, far = plain.data
    assert cosine(text, near) > cosine(text, far) + 0.3
    assert packed.usage.prompt_tokens == packed.usage.total_tokens > 20


def test_openais_client_understands_the_errors_and_the_extension(real, client_of):
    client = client_of(real)
    model = client.models.list().data[0].id
    with pytest.raises(openai.UnprocessableEntityError) as caught:
        client.embeddings.create(model=model, input=["fine", "word " * 400])
    assert (caught.value.code, caught.value.param) == ("input_too_long", "input")
    cut = client.embeddings.create(model=model, input=["fine", "word " * 400], extra_body={"truncate": True})
    assert cut.usage.model_extra == {"truncated": [1]}
    with pytest.raises(openai.NotFoundError) as missing:
        client.embeddings.create(model="gpt", input="a")
    assert missing.value.code == "model_not_found"
    with pytest.raises(openai.AuthenticationError):
        client_of(real, api_key="wrong").models.list()


def test_a_large_request_is_answered_while_small_ones_pass_it(real, client_of):
    client = client_of(real)
    model = client.models.list().data[0].id
    inputs = [f"text number {number} " + "and more " * (number % 30) for number in range(600)]
    large = json.dumps({"model": model, "input": inputs}).encode()
    with ExitStack() as stack:
        raw = begin(real, stack, large)
        real.wait_until(lambda health: health["queue"]["waiting_rows"] > 300)
        assert client.embeddings.create(model=model, input="small").data
        assert real.health()["queue"]["waiting_rows"] > 0
        content = read_answer(raw).json
    assert [item["index"] for item in content["data"]] == list(range(600))


def test_a_client_that_is_gone_is_not_computed_for_and_its_place_is_free(connections):
    with serving(fake_seconds=0.5, max_batch_rows=1) as server:
        first = begin(server, connections)
        server.wait_until(lambda health: health["queue"]["running_seconds"] is not None)
        many = json.dumps({"model": "fake", "input": ["gone"] * 500}).encode()
        with server.connect() as leaving:
            leaving.sendall(head_of("POST", PATH, f"Content-Length: {len(many)}") + many)
            server.wait_until(lambda health: health["queue"]["waiting_rows"] == 500)
        server.wait_until(in_progress(1))
        assert read_answer(first).status == 200
        assert server.post(PATH, BODY).status == 200
        assert server.metric("steelyard_embed_batch_rows_count") < 10


def test_requests_beyond_the_queue_are_told_to_come_back(connections, client_of):
    with serving(fake_seconds=1.0, max_queue=2) as server:
        accepted = [begin(server, connections) for _ in range(2)]
        server.wait_until(in_progress(2))
        with pytest.raises(openai.RateLimitError) as caught:
            client_of(server).embeddings.create(model="fake", input="a")
        assert caught.value.code == "busy"
        assert caught.value.response.headers["retry-after"] == "1"
        assert [read_answer(raw).status for raw in accepted] == [200, 200]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_lets_accepted_work_end_and_takes_no_more(connections, number):
    with serving(fake_seconds=0.5, max_batch_rows=1) as server:
        half_sent = begin(server, connections, sent=10)
        working = [begin(server, connections) for _ in range(2)]
        server.wait_until(in_progress(3))
        server.process.send_signal(number)
        server.log.wait_for("Draining: 3 requests")
        assert server.request("GET", "/health?ready").status == 503
        assert server.post(PATH, BODY).status == 429
        half_sent.sendall(BODY[10:])
        assert [read_answer(raw).status for raw in (*working, half_sent)] == [200, 200, 200]
        assert server.process.wait(WAIT_S) == 0
    assert "Traceback" not in server.log.text


def test_a_model_that_no_longer_embeds_ends_the_process_with_1():
    command = [sys.executable, "-c", _POISONED]
    with serving(command=command) as server:
        failing = json.dumps({"model": "fake", "input": "[fake:failure]"}).encode()
        assert server.post(PATH, failing).status == 500
        assert server.process.wait(WAIT_S) == 1
        server.log.wait_for("The warm-up text no longer embeds")


def test_what_is_no_http_is_answered_in_openais_shape(connections):
    with serving() as server:
        raw = connections.enter_context(server.connect())
        raw.sendall(b"no http at all\r\n\r\n")
        answer = read_answer(raw)
        assert answer.status == 400
        assert list(answer.json["error"]) == ["message", "type", "param", "code"]


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"api_token": None}, "STEELYARD_EMBED_API_TOKEN is required"),
        ({"model": "nothing-of-this-name"}, "STEELYARD_EMBED_MODEL nothing-of-this-name is no folder"),
        ({"max_inputs": 5000}, "STEELYARD_EMBED_MAX_INPUTS must be an integer from 1 to 2048"),
        ({"maxinputs": 5}, "did you mean STEELYARD_EMBED_MAX_INPUTS"),
        ({"bind": "127.0.0.1:1"}, None),
    ],
)
def test_a_start_that_cannot_be_is_refused_in_one_sentence(settings, sentence):
    if sentence is None:
        with socket.create_server(("127.0.0.1", 0)) as taken:
            code, text = refusal(bind=f"127.0.0.1:{taken.getsockname()[1]}")
        sentence = "STEELYARD_EMBED_BIND: cannot listen on"
    else:
        code, text = refusal(**settings)
    assert code == 2
    assert sentence in text
    assert "Traceback" not in text


def test_a_damaged_file_is_refused_before_anything_listens(weights, tmp_path):
    for name in ("all-minilm-l6-v2-int8.onnx", "all-minilm-l6-v2.tokenizer.json"):
        content = bytearray((weights("all-minilm-l6-v2-int8").parent / name).read_bytes())
        content[len(content) // 2] ^= name.endswith(".onnx")
        (tmp_path / name).write_bytes(content)
    code, text = refusal(model="all-minilm-l6-v2-int8", models_dir=tmp_path)
    assert code == 2
    assert "is not the file that it should be: expected SHA-256 8199be6f" in text


def test_a_folder_of_ones_own_is_served_under_its_name(weights, tmp_path, client_of):
    folder = tmp_path / "my-model"
    folder.mkdir()
    main = weights("paraphrase-minilm-l3-v2")
    (folder / "model.onnx").symlink_to(main)
    (folder / "tokenizer.json").symlink_to(main.parent / "all-minilm-l6-v2.tokenizer.json")
    description = {"dimension": 384, "pooling": "mean", "max_tokens": 64, "output": "onnx::Shape_422"}
    (folder / "embedding.json").write_text(json.dumps(description))
    with serving(model=folder, threads=1) as server:
        assert server.health()["identity"]["max_tokens"] == 64
        assert client_of(server).embeddings.create(model="my-model", input="a").usage.total_tokens == 3
    (folder / "embedding.json").write_text(json.dumps({**description, "output": "logits"}))
    code, text = refusal(model=folder)
    assert code == 2
    assert "the model has no output 'logits'; it has 'output', '463', 'onnx::Shape_422', '461'" in text
    (folder / "model.onnx").unlink()
    (folder / "model.onnx").write_bytes(b"no model")
    code, text = refusal(model=folder)
    assert code == 2
    assert "cannot be served" in text
    assert "Traceback" not in text


def test_a_second_signal_ends_it_at_once(connections):
    with serving(fake_seconds=4, max_batch_rows=1) as server:
        begin(server, connections)
        server.wait_until(lambda health: health["queue"]["running_seconds"] is not None)
        server.process.send_signal(signal.SIGTERM)
        server.log.wait_for("Draining")
        assert server.stop(signal.SIGTERM) == 130


def test_help_says_that_one_process_serves_one_model():
    finished = subprocess.run([*EMBED_SERVE, "--help"], capture_output=True, text=True, check=True)
    assert "One process serves one model" in finished.stdout
    with started(EMBED_SERVE, environ()) as (process, log):
        log.wait_for("Serving fake on")
        assert process.poll() is None
