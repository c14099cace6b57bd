"""Random bodies: nothing that a caller can send makes the server fail, or answer outside the contract."""

from __future__ import annotations

import asyncio
import copy
import json
import random
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from tests.api.asgi import BEARER, DECISION, ROW, Exchange, Served, _exchange, _scope, serve, settings_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

VALID: dict[str, list[dict[str, Any]]] = {
    "/decide": [
        ROW,
        {**ROW, "orderings": "rotations"},
        {**ROW, "orderings": "all", "workload": None},
        {**ROW, "state": {"k": [1, 2.5, None, True, {"x": "y"}]}, "workload": "triage"},
    ],
    "/decide/shared": [
        {"state": "s", "decisions": [DECISION, {**DECISION, "id": "b"}], "workload": "triage"},
        {"state": [1], "decisions": [{**DECISION, "orderings": "all"}, {**DECISION, "id": "b", "orderings": None}]},
    ],
}
ODD_TEXTS = [
    "",
    "#o0",
    "ticket-1#o1",
    "\x00",
    "\u2028",
    "\ud800",
    "\U0001f600",
    "<|im_end|>",
    "none",
    "all",
    "A",
    "x" * 300,
]
ODD_NUMBERS = [0, -1, 2**63, 10**400, 1e308, -0.0, float("nan"), float("inf")]

texts = st.text(st.characters(exclude_categories=()), max_size=20) | st.sampled_from(ODD_TEXTS)
scalars = st.none() | st.booleans() | st.integers() | st.floats() | texts | st.sampled_from(ODD_NUMBERS)
keys = texts | st.sampled_from(
    ["id", "state", "question", "options", "decisions", "workload", "orderings", "description"]
)
values = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=5) | st.dictionaries(keys, inner, max_size=5), max_leaves=15
)


def paths_in(value: object) -> Iterator[tuple[Any, ...]]:
    """Yield the path to every value inside *value*, itself left out."""
    items: Any = ()
    if isinstance(value, dict):
        items = value.items()
    elif isinstance(value, list):
        items = enumerate(value)
    for key, inner in items:
        yield (key,)
        yield from ((key, *rest) for rest in paths_in(inner))


@st.composite
def mutated(draw: Callable[..., Any], path: str) -> object:
    """Return a valid body with one to three values replaced, removed or repeated."""
    body = copy.deepcopy(draw(st.sampled_from(VALID[path])))
    for _ in range(draw(st.integers(0, 3))):
        places = list(paths_in(body))
        if not places:
            break
        *above, key = draw(st.sampled_from(places))
        parent: Any = body
        for step in above:
            parent = parent[step]
        change = draw(st.sampled_from(["replace", "remove", "repeat"]))
        if change == "replace":
            parent[key] = draw(values)
        elif change == "remove":
            del parent[key]
        elif isinstance(parent, list):
            parent.insert(0, copy.deepcopy(parent[key]))
    return body


def as_json(body: object) -> bytes:
    return json.dumps(body).encode()


def cut(draw_from: st.SearchStrategy[bytes]) -> st.SearchStrategy[bytes]:
    """Cut a piece out of the middle of a body, or put one byte in."""
    return st.builds(
        lambda body, at, until, put: body[: at % (len(body) + 1)] + put + body[until % (len(body) + 1) :],
        draw_from,
        st.integers(0, 5000),
        st.integers(0, 5000),
        st.binary(max_size=2),
    )


def bodies(path: str) -> st.SearchStrategy[bytes]:
    valid = mutated(path).map(as_json)
    return st.one_of(valid, valid, valid, values.map(as_json), cut(valid), st.binary(max_size=200))


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    table = tmp_path_factory.mktemp("fuzz") / "table.json"
    table.write_text('{"triage": 2.0}')
    served = serve(settings=settings_of(calibration=table, max_decisions=30, max_body_bytes=20_000, max_tokens=3000))
    yield served
    served.server.thread.close()


@pytest.fixture(scope="module")
def send(target: Served) -> Iterator[Callable[..., Exchange]]:
    """Send one body on the module's own event loop."""
    with asyncio.Runner() as runner:

        def run(path: str, body: bytes, *headers: tuple[bytes, bytes], pieces: int = 1) -> Exchange:
            size = max(1, -(-len(body) // pieces))
            chunks = [body[k : k + size] for k in range(0, len(body), size)] or [b""]
            scope = _scope(path, "POST", [BEARER, *headers])
            return runner.run(_exchange(target.server.app, scope, chunks, ends=True, hangs_up=False))

        yield run


def check(answer: Exchange, path: str) -> None:
    if answer.status == 200:
        content = json.loads(answer.body)
        for result in content["results"] if path == "/decide/shared" else [content]:
            probabilities = result.get("combined", result)["probabilities"]
            assert len(probabilities) == len(result["option_ids"])
            assert sum(probabilities) == pytest.approx(1)
        return
    code = {413: "request_too_large", 415: "unsupported_encoding", 422: "invalid_request"}.get(answer.status)
    assert answer.error["code"] == code, (answer.status, answer.body)
    assert 0 < len(answer.error["message"]) < 400


def fuzz(send: Callable[..., Exchange], path: str, count: int) -> None:
    @given(body=bodies(path), pieces=st.integers(1, 4))
    @settings(max_examples=count, suppress_health_check=list(HealthCheck))
    @example(body=b"\xef\xbb\xbf", pieces=1)
    def run(body: bytes, pieces: int) -> None:
        if b"[fake:" not in body:
            check(send(path, body, pieces=pieces), path)

    run()


@pytest.mark.parametrize("path", VALID)
def test_no_body_makes_the_server_fail(send, target: Served, path: str) -> None:
    fuzz(send, path, 1500)
    assert target.server.admission.in_progress == 0


@pytest.mark.slow
@pytest.mark.parametrize("path", VALID)
def test_no_body_of_very_many_makes_the_server_fail(send, target: Served, path: str) -> None:
    fuzz(send, path, 20_000)
    assert target.server.admission.in_progress == 0


@given(
    data=st.binary(max_size=300),
    encoding=st.sampled_from([b"gzip", b"zstd", b"br", b"identity", b"\xff", b"gzip,zstd", b""]),
    length=st.sampled_from([None, b"5", b"99999999", b"-1", b"\xff", b"1e3"]),
)
@settings(max_examples=600, suppress_health_check=list(HealthCheck))
def test_no_headers_and_compressed_noise_make_the_server_fail(send, data: bytes, encoding: bytes, length) -> None:
    magic = {b"gzip": b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\x03", b"zstd": b"\x28\xb5\x2f\xfd"}.get(encoding, b"")
    headers = [(b"content-encoding", encoding), *([(b"content-length", length)] if length else [])]
    for body in (data, magic + data):
        check(send("/decide", body, *headers, pieces=3), "/decide")


def test_a_valid_row_with_noise_in_its_texts_always_scores(send) -> None:
    """Every string is evidence: templates, markers of chat and odd characters included."""
    chance = random.Random(7)
    alphabet = [chr(c) for c in (*range(0x20, 0x7F), 0x9, 0xA, 0xE9, 0x4E2D, 0x1F600, 0x202E, 0xFFFD)]
    for n in range(300):
        noise = "".join(chance.choices([*alphabet, "<|im_start|>", "<|im_end|>", '"}', "\\"], k=chance.randint(1, 60)))
        row = {**ROW, "id": noise, "state": noise, "question": noise}
        answer = send("/decide", json.dumps(row, ensure_ascii=bool(n % 2)).encode())
        assert answer.status == 200, answer.body
        assert json.loads(answer.body)["id"] == noise
