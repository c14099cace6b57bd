"""The bearer token: nothing but health answers without it, and no header bytes crash the check."""

from __future__ import annotations

import hmac

import pytest
from tests.api.asgi import BEARER, TOKEN, Served, exchange

EVERYTHING_ELSE = [
    ("POST", "/decide"),
    ("POST", "/decide/shared"),
    ("GET", "/metrics"),
    ("GET", "/openapi.json"),
    ("GET", "/docs"),
    ("GET", "/redoc"),
    ("GET", "/nowhere"),
    ("GET", "/"),
    ("GET", "/health/"),
    ("GET", "/Health"),
    ("GET", "//health"),
    ("GET", "/health/../metrics"),
    ("POST", "/health"),
    ("OPTIONS", "/health"),
    ("OPTIONS", "/decide"),
    ("BREW", "/coffee"),
]
WRONG = {
    "another token": [(b"authorization", b"Bearer another-token-0123456789-abcdefgh")],
    "no scheme": [(b"authorization", TOKEN.encode())],
    "another scheme": [(b"authorization", b"Basic " + TOKEN.encode())],
    "no token": [(b"authorization", b"Bearer")],
    "an empty token": [(b"authorization", b"Bearer ")],
    "an empty header": [(b"authorization", b"")],
    "part of the token": [(b"authorization", b"Bearer " + TOKEN[:-1].encode())],
    "more than the token": [(b"authorization", b"Bearer " + TOKEN.encode() + b"x")],
    "another case": [(b"authorization", b"Bearer " + TOKEN.upper().encode())],
    "two tokens in one header": [(b"authorization", b"Bearer " + TOKEN.encode() + b", Bearer " + TOKEN.encode())],
    "bytes that are not ASCII": [(b"authorization", b"Bearer \xff\xfe\x80")],
    "Latin-1": [(b"authorization", "Bearer \u00e9".encode("latin-1") + TOKEN.encode())],
    "a scheme that is not ASCII": [(b"authorization", b"B\xe4rer " + TOKEN.encode())],
    "UTF-8": [(b"authorization", ("Bearer " + TOKEN[:-1] + "ｊ").encode())],
    "two headers, both right": [BEARER, BEARER],
    "two headers, the first right": [BEARER, (b"authorization", b"Bearer x")],
    "two headers, the last right": [(b"authorization", b"Bearer x"), BEARER],
    "another header": [(b"x-authorization", b"Bearer " + TOKEN.encode()), (b"cookie", TOKEN.encode())],
}


@pytest.mark.parametrize(("method", "path"), EVERYTHING_ELSE)
def test_everything_but_health_needs_the_token(served: Served, method: str, path: str) -> None:
    answer = exchange(served.server.app, path, method=method, headers=[])
    assert (answer.status, answer.error["code"]) == (401, "unauthorized")
    assert answer.header(b"www-authenticate") == b"Bearer"


@pytest.mark.parametrize("headers", WRONG.values(), ids=WRONG.keys())
def test_a_wrong_token_is_a_401(served: Served, engine, headers: list) -> None:
    answer = exchange(served.server.app, headers=headers, chunks=[b"{}"])
    assert (answer.status, answer.error["code"]) == (401, "unauthorized")
    assert engine.calls == []


@pytest.mark.parametrize("value", [f"Bearer {TOKEN}", f"bearer {TOKEN}", f"BEARER   {TOKEN} "])
def test_the_right_token_passes_in_any_case_of_its_scheme(served: Served, value: str) -> None:
    answer = exchange(served.server.app, "/metrics", method="GET", headers=[(b"authorization", value.encode())])
    assert answer.status == 200


def test_a_token_in_the_query_is_no_token(served: Served) -> None:
    answer = exchange(served.server.app, f"/metrics?token={TOKEN}&access_token={TOKEN}", method="GET", headers=[])
    assert answer.status == 401


def test_a_401_takes_no_place_in_the_queue_and_needs_none(serving) -> None:
    served = serving(max_queue=1)
    with served.server.admission.enter():
        answer = exchange(served.server.app, headers=[], chunks=[b"{"], ends=False)
        assert answer.status == 401
        assert served.server.admission.in_progress == 1


@pytest.mark.parametrize("sent", ["", TOKEN[0], TOKEN[:-1] + "x", TOKEN, "\xff"])
def test_the_token_is_compared_by_hmac_whose_verdict_decides(
    served: Served, monkeypatch: pytest.MonkeyPatch, sent: str
) -> None:
    compared: list[tuple[bytes, bytes]] = []
    headers = [(b"authorization", b"Bearer " + sent.encode("latin-1"))]
    for verdict, status in ((True, 200), (False, 401)):

        def compare(left: bytes, right: bytes, verdict: bool = verdict) -> bool:
            compared.append((left, right))
            return verdict

        monkeypatch.setattr(hmac, "compare_digest", compare)
        assert exchange(served.server.app, "/metrics", method="GET", headers=headers).status == status
    assert compared == [(sent.encode("latin-1"), TOKEN.encode())] * 2
