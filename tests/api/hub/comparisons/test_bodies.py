"""Bodies that are no requests: too large, too deep, no JSON, nothing but faults. None fails, and none comes back."""

from __future__ import annotations

import json
import time
import uuid
from typing import TYPE_CHECKING, Any

import pytest
from tests.comparing import PATH
from tests.problems import refused

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.comparing import Stage
    from tests.hub_api import Caller

LIMIT = 8 << 20
NO_JSON = {
    "half": b'{"claim_token": "canary-canary',
    "no object": b"[1, 2]",
    "a text": b'"canary-canary"',
    "a number": b"17",
    "a raw NUL": b'{"claim_token": "canary\x00canary"}',
    "no UTF-8": b'{"claim_token": "canary-canary\xff"}',
    "UTF-16": '{"claim_token": "canary-canary"}'.encode("utf-16"),
    "a lone surrogate": b'{"claim_token": "canary-canary\\ud800"}',
    "a lone surrogate in a name": b'{"canary-canary\\udfff": 1}',
    "NaN": b'{"claim_token": NaN}',
    "two values": b'{"claim_token": "canary-canary"} {}',
    "a form": b"claim_token=canary-canary&outcome=failed",
    "deep": b'{"claim_token": ' + b"[" * 100_000 + b"]" * 100_000 + b"}",
    "deep but read": b'{"claim_token": ' + b'{"canary-canary": ' * 400 + b"1" + b"}" * 401,
}


@pytest.fixture
def comparison(stage: Stage) -> Any:
    comparison, _ = stage.claimed()
    return comparison


def calls(stage: Stage, comparison: Any) -> list[tuple[Caller, str]]:
    """Return every call that takes a body, with who may make it."""
    one = f"{PATH}/{comparison['id']}"
    consumers = [(stage.consumer, f"{one}/{call}") for call in ("claim", "progress", "result", "finish")]
    return [(stage.operator, PATH), (stage.operator, f"{one}/cancel"), *consumers]


def test_what_is_no_json_object_is_a_422(stage, comparison):
    for body in NO_JSON.values():
        for caller, path in calls(stage, comparison):
            refused(caller.send(path, body), 422, "INVALID_REQUEST")
    for caller, path in calls(stage, comparison):
        if not path.endswith("/claim"):
            for body in (b"", b"null", b"{}"):
                refused(caller.send(path, body), 422, "INVALID_REQUEST")
    assert stage.read(comparison)["version"] == 2


@pytest.mark.parametrize("size", [LIMIT + 1, 10_000_000])
def test_a_body_over_the_limit_is_a_413_before_its_shape_is_looked_at(stage, comparison, size):
    for caller, path in calls(stage, comparison):
        for body in (b"x" * size, b'{"claim_token": "%s"}' % (b"canary" * (size // 6))):
            refused(caller.send(path, body), 413, "REQUEST_TOO_LARGE")
    assert stage.read(comparison)["version"] == 2


def test_a_body_of_exactly_the_limit_is_read(stage):
    comparison, claim = stage.claimed()
    body = json.dumps(stage.result(claim)).encode()
    answer = stage.consumer.send(f"{PATH}/{comparison['id']}/result", body + b" " * (LIMIT - len(body)))
    assert answer.json()["status"] == "completed"


def _names(count: int) -> bytes:
    return b"{" + b",".join(b'"%06d":1' % number for number in range(count)) + b"}"


def _listed(item: bytes, count: int) -> bytes:
    return b"[" + b",".join([item] * count) + b"]"


FLOODS: dict[str, Callable[[], bytes]] = {
    "names": lambda: _names(700_000),
    "names in a mapping": lambda: b'{"current_gateway_requests":' + _names(700_000) + b"}",
    "names in a leg": lambda: b'{"candidate":' + _names(700_000) + b"}",
    "names in cases": lambda: b'{"current":{"results":' + _listed(_names(7000), 99) + b"}}",
    "cases": lambda: b'{"current":{"results":' + _listed(b"{}", 2_700_000) + b"}}",
    "chunks": lambda: (
        b'{"current":{"results":' + _listed(b'{"ranked_results":' + _listed(_names(20), 100) + b"}", 100) + b"}}"
    ),
    "names in a chunk": lambda: b'{"current":{"results":[{"ranked_results":[' + _names(700_000) + b"]}]}}",
    "numbers": lambda: b'{"claim_token":' + _listed(b"1", 4_000_000) + b"}",
}


@pytest.mark.parametrize("name", FLOODS)
def test_a_body_of_nothing_but_faults_costs_little(stage, comparison, name):
    """Told one by one, a million faults would take ten seconds, in which the process answers nobody, and gigabytes."""
    flood = FLOODS[name]()
    assert len(flood) <= LIMIT
    began = time.process_time()
    answer = stage.consumer.send(f"{PATH}/{comparison['id']}/result", flood)
    took_s = time.process_time() - began
    problem = refused(answer, 422, "INVALID_REQUEST")
    assert len(problem["errors"]) <= 20
    assert took_s < 4


def test_faults_of_every_size_name_no_more_than_places(stage, comparison):
    body = {f"canary-{uuid.uuid4()}": 1 for _ in range(30)}
    problem = refused(stage.call(comparison, "progress", **body), 422, "INVALID_REQUEST")
    assert problem["errors"] == [
        {
            "where": "body",
            "rule": "has many names that are no fields of this request; /openapi.json lists those that are",
        }
    ]
    body = {f"canary-{uuid.uuid4()}": 1 for _ in range(5)}
    problem = refused(stage.call(comparison, "progress", **body), 422, "INVALID_REQUEST")
    assert [error["where"] for error in problem["errors"]].count("body.*") == 5
