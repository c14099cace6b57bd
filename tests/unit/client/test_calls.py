from __future__ import annotations

import json

import pytest

from steelyard.client import calls
from steelyard.client.errors import BadAddress, BadCredential, Fault, Refused, StrangeAnswer

CALL = calls.Call("GET", "/api/v1/projects")


def read(status: int, value: object, **headers: str) -> calls.Answer:
    return calls.read(CALL, status=status, content=json.dumps(value).encode(), headers=headers)


@pytest.mark.parametrize("url", ["http://127.0.0.1:8470", "https://hub.example/", "http://[::1]:8470/under"])
def test_an_http_address_is_taken_without_its_final_slash(url):
    assert calls.check_address(url) == url.rstrip("/")


@pytest.mark.parametrize(
    "url",
    ["", "hub", "ftp://hub", "http://", "http://u@hub", "http://u:p@hub", "http://hub?x=1", "http://hub#x",
     "http://hub:0", "http://hub:x", "http://[", "http://hub\n"],
)  # fmt: skip
def test_anything_else_is_no_address(url):
    with pytest.raises(BadAddress):
        calls.check_address(url)


@pytest.mark.parametrize("credential", ["", "a b", "ü", "a\n", "\x7f"])
def test_a_credential_that_no_header_could_carry_is_refused_unseen(credential):
    with pytest.raises(BadCredential) as refused:
        calls.check_credential(credential)
    assert not credential or credential not in str(refused.value)


def test_a_listing_leaves_out_what_was_not_asked():
    call = calls.listing("routes", limit=5, offset=10, slug=None, is_active=False, project_binding_id="x")
    assert (call.path, call.body) == ("/api/v1/routes", None)
    assert call.query == {"limit": 5, "offset": 10, "is_active": "false", "project_binding_id": "x"}


def test_an_id_is_one_segment_of_a_path():
    assert calls.getting("routes", "../x?y").path == "/api/v1/routes/..%2Fx%3Fy"
    assert calls.acting("routes", "a/b", "activate", None).path == "/api/v1/routes/a%2Fb/activate"


def test_an_answer_says_whether_its_thing_is_new():
    assert read(201, {"id": "x"}).is_new
    assert not read(200, {"id": "x"}).is_new


def test_a_page_is_read():
    page = calls.page_of(read(200, {"items": [{}], "limit": 1, "offset": 0, "has_more": True}))
    assert page == calls.Page(items=[{}], limit=1, offset=0, has_more=True)


def test_a_problem_becomes_its_error_again():
    problem = {"code": "VERSION_CONFLICT", "detail": "The present version is 3", "current_version": 3, "title": "x"}
    with pytest.raises(Refused, match="The present version is 3") as refused:
        read(409, problem)
    error = refused.value
    assert (error.status, error.code, error.current_version) == (409, "VERSION_CONFLICT", 3)
    assert (error.faults, error.retry_after_s) == ((), None)


def test_a_problem_brings_its_faults_and_when_to_come_back():
    faults = [{"where": "body.slug", "rule": "too long"}]
    with pytest.raises(Refused, match=r"^Unprocessable$") as refused:
        read(422, {"code": "INVALID_REQUEST", "title": "Unprocessable", "errors": faults}, **{"retry-after": "7"})
    assert refused.value.faults == (Fault("body.slug", "too long"),)
    assert refused.value.retry_after_s == 7


@pytest.mark.parametrize("content", [b"", b"<html>", b"[1]", b'{"error": 1}', b'{"code": 1}', b"[" * 100_000])
def test_what_is_no_answer_of_the_hub_is_strange(content):
    with pytest.raises(StrangeAnswer, match="is this the hub's address"):
        calls.read(CALL, status=502, content=content, headers={})


def test_a_redirect_is_strange():
    with pytest.raises(StrangeAnswer):
        read(302, None)
