from __future__ import annotations

import logging

import httpx2
import pytest

from steelyard.client import HubClient, Refused, Unreachable

SECRET = "steelyard_operator_x"


def client(answer) -> HubClient:
    return HubClient("http://hub.test", credential=SECRET, transport=httpx2.MockTransport(answer))


def test_every_call_carries_the_credential_and_no_log_does(caplog):
    seen = []

    def answer(request):
        seen.append(request)
        return httpx2.Response(200, json={"id": "1"})

    with caplog.at_level(logging.DEBUG), client(answer) as hub:
        assert hub.get("projects", "1") == {"id": "1"}
    assert seen[0].headers["authorization"] == f"Bearer {SECRET}"
    assert SECRET not in caplog.text
    assert SECRET not in repr(vars(hub))


def test_all_goes_through_every_page():
    def answer(request):
        offset = int(request.url.params["offset"])
        items = [{"n": number} for number in range(offset, min(offset + 100, 250))]
        return httpx2.Response(200, json={"items": items, "limit": 100, "offset": offset, "has_more": offset < 200})

    assert [item["n"] for item in client(answer).all("projects")] == list(range(250))


def test_a_refusal_is_raised():
    problem = {"code": "SLUG_TAKEN", "detail": "The slug is taken"}
    with pytest.raises(Refused, match="taken"):
        client(lambda _request: httpx2.Response(409, json=problem)).create("projects", {"slug": "x"})


@pytest.mark.parametrize("status", [201, 200])
def test_a_creation_with_a_key_is_asked_for_once_more_where_no_answer_came(status):
    bodies = []

    def answer(request):
        bodies.append(request.read())
        if len(bodies) == 1:
            raise httpx2.ReadError("lost")
        return httpx2.Response(status, json={"id": "1"})

    answered = client(answer).create_once("selected-model-comparisons", {"idempotency_key": "k"})
    assert bodies == [b'{"idempotency_key":"k"}'] * 2
    assert (answered.value, answered.is_new) == ({"id": "1"}, status == 201)


def test_a_refused_creation_is_not_repeated():
    asked = []

    def answer(request):
        asked.append(request)
        return httpx2.Response(409, json={"code": "COMPARISON_ACTIVE", "detail": "Another one is active"})

    with pytest.raises(Refused, match="active"):
        client(answer).create_once("selected-model-comparisons", {"idempotency_key": "k"})
    assert len(asked) == 1


def test_an_apply_sends_the_digest_only_where_there_is_one():
    bodies = []

    def answer(request):
        bodies.append(request.read())
        return httpx2.Response(200, json={})

    client(answer).apply({}, dry_run=True)
    client(answer).apply({}, dry_run=False, plan_digest="ab")
    assert bodies == [b'{"document":{},"dry_run":true}', b'{"document":{},"dry_run":false,"plan_digest":"ab"}']


@pytest.mark.parametrize(
    ("error", "sentence"),
    [
        (httpx2.ConnectError("refused"), "cannot be reached: is `steelyard hub serve` running"),
        (httpx2.ReadTimeout("slow"), "did not answer in time"),
        (httpx2.RemoteProtocolError("bad"), "cannot be reached"),
    ],
)
def test_a_hub_that_does_not_answer_is_one_sentence(error, sentence):
    def answer(_request):
        raise error

    with pytest.raises(Unreachable, match=sentence) as unreachable:
        client(answer).get("projects", "1")
    assert "http://hub.test" in str(unreachable.value)
    assert SECRET not in str(unreachable.value)


def test_no_proxy_of_the_environment_is_used(monkeypatch):
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    monkeypatch.setenv("ALL_PROXY", "http://127.0.0.1:9")
    with HubClient("http://127.0.0.1:1", credential=SECRET) as hub:
        assert not hub._client._mounts


def test_a_change_and_an_import_are_posts_under_the_thing():
    asked = []

    def answer(request):
        asked.append((request.method, request.url.path, request.read()))
        return httpx2.Response(201, json={"id": "1"})

    with client(answer) as hub:
        hub.act("credentials", "x", "revoke")
        hub.act("routes", "x", "activate", {"expected_version": 2})
        assert hub.import_revision("x", {"cases": []}).is_new
    assert asked == [
        ("POST", "/api/v1/credentials/x/revoke", b""),
        ("POST", "/api/v1/routes/x/activate", b'{"expected_version":2}'),
        ("POST", "/api/v1/suites/x/revisions", b'{"cases":[]}'),
    ]
