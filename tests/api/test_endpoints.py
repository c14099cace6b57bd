"""What each endpoint takes and gives: contract sections 1 to 5 as a caller sees them."""

from __future__ import annotations

import json

import pytest
from tests.api.asgi import DECISION, OPTIONS, ROW, Served

from steelyard.decide.domain.direct import score_direct
from steelyard.decide.domain.prompt import encode_row
from steelyard.decide.domain.rows import parse_row
from steelyard.decide.domain.shared import score_shared
from steelyard.decide.engines.fake import FakeEngine, FakeTokenizer

SHARED_KEYS = [
    "id",
    "option_ids",
    "probabilities",
    "option_logits",
    "input_tokens",
    "prompt_sha256",
    "prompt_version",
    "model",
    "readout",
    "probability_status",
]
DIRECT_KEYS = [*SHARED_KEYS[:5], "forward_seconds", "total_seconds", *SHARED_KEYS[5:]]
TIMING_KEYS = [
    "total_seconds",
    "encode_seconds",
    "prefix_tokens",
    "prefill_seconds",
    "replicate_seconds",
    "suffix_forward_seconds",
    "batch_size",
    "true_suffix_tokens",
    "padded_suffix_tokens",
]


def sha256_of(row: dict) -> str:
    return encode_row(parse_row(row), tokenizer=FakeTokenizer(), max_tokens=4096).sha256


def without_seconds(result: dict) -> dict:
    return {key: value for key, value in result.items() if not key.endswith("_seconds")}


def test_health_says_what_is_served_in_the_contracts_order(served: Served) -> None:
    health = served.client.get("/health").json()
    assert list(health)[:7] == [
        "status",
        "semif_commit",
        "model",
        "vram_cap_gib",
        "max_tokens",
        "max_decisions",
        "workloads",
    ]
    assert health["status"] == "ok"
    assert health["semif_commit"] == "23cf1f39fc9534fe81437200959b6dfc7106e45a"
    assert health["vram_cap_gib"] is None
    assert health["workloads"] == ["audit", "triage"]


def test_health_tells_the_limits_that_were_set(serving) -> None:
    health = serving(max_tokens=77, max_decisions=5, vram_cap_gib="6.5").client.get("/health").json()
    assert (health["max_tokens"], health["max_decisions"], health["vram_cap_gib"]) == (77, 5, 6.5)
    assert health["workloads"] == []


def test_healths_model_is_the_object_in_the_results(served: Served) -> None:
    assert served.client.get("/health").json()["model"] == served.decide().json()["model"]


@pytest.mark.parametrize("headers", [{}, {"Authorization": "Bearer wrong"}])
@pytest.mark.parametrize("method", ["GET", "HEAD"])
def test_health_needs_no_token(served: Served, method: str, headers: dict[str, str]) -> None:
    del served.client.headers["Authorization"]
    assert served.client.request(method, "/health", headers=headers).status_code == 200


def test_health_shows_an_idle_queue(served: Served) -> None:
    assert served.client.get("/health").json()["queue"] == {"in_progress": 0, "limit": 32, "running_seconds": None}


@pytest.mark.parametrize("query", ["?ready", "?ready=", "?ready=1"])
def test_readiness_is_refused_while_draining_and_plain_health_is_not(served: Served, query: str) -> None:
    assert served.client.get(f"/health{query}").status_code == 200
    served.server.admission.is_draining = True
    answer = served.client.get(f"/health{query}")
    assert (answer.status_code, answer.json()["error"]["code"]) == (503, "not_ready")
    assert served.client.get("/health").status_code == 200


@pytest.mark.parametrize("path", ["/decide", "/decide/shared"])
def test_a_draining_server_takes_no_new_work(served: Served, path: str) -> None:
    served.server.admission.is_draining = True
    answer = served.post(path, {})
    assert (answer.status_code, answer.json()["error"]["code"]) == (429, "busy")


def test_decide_returns_what_the_direct_scorer_returns(served: Served, engine) -> None:
    result = served.decide().json()
    assert list(result) == DIRECT_KEYS
    expected = score_direct(parse_row(ROW), engine=FakeEngine(), max_tokens=4096)
    assert without_seconds(result) == without_seconds(expected)
    assert 0 <= result["forward_seconds"] <= result["total_seconds"]
    assert engine.calls == ["forward"]


def test_shared_returns_what_the_shared_scorer_returns_with_its_timing(served: Served, engine) -> None:
    decisions = [{**DECISION, "id": name, "question": f"Is it {name}?"} for name in ("c", "a", "b")]
    answer = served.shared(*decisions).json()
    assert list(answer) == ["results", "timing"]
    assert [list(result) for result in answer["results"]] == [SHARED_KEYS] * 3
    assert list(answer["timing"]) == TIMING_KEYS
    rows = [parse_row({**decision, "state": ROW["state"]}) for decision in decisions]
    expected, _timing = score_shared(rows, engine=FakeEngine(), max_tokens=4096)
    assert answer["results"] == expected
    assert [result["id"] for result in answer["results"]] == ["c", "a", "b"]
    assert engine.calls == ["prefill", "suffixes 3"]


def test_a_shared_answer_equals_the_direct_one(served: Served) -> None:
    direct = served.decide().json()
    (shared,) = served.shared(DECISION).json()["results"]
    same = ("id", "option_ids", "probabilities", "option_logits", "input_tokens", "prompt_sha256", "prompt_version")
    assert {key: shared[key] for key in same} == {key: direct[key] for key in same}
    assert shared["model"] == {**direct["model"], "serving_config": shared["model"]["serving_config"]}
    assert shared["readout"] == "native selected suffix-position logits"


@pytest.mark.parametrize("own", ["another state", None, [], 7, {}])
def test_the_shared_state_replaces_a_decisions_own(served: Served, own: object) -> None:
    answer = served.shared({**DECISION, "state": own})
    assert answer.status_code == 200
    assert answer.json()["results"][0]["prompt_sha256"] == sha256_of(ROW)


def test_a_decisions_own_state_is_no_substitute_for_the_shared_one(served: Served) -> None:
    answer = served.post("/decide/shared", {"decisions": [ROW]})
    assert answer.status_code == 422
    assert answer.json()["error"]["message"] == "Row is missing fields: ['state']"


@pytest.mark.parametrize("content_type", ["application/json", "text/plain", "application/x-www-form-urlencoded", "☃"])
def test_the_content_type_does_not_matter(served: Served, content_type: str) -> None:
    headers = {"Content-Type": content_type.encode()}
    assert served.client.post("/decide", content=json.dumps(ROW), headers=headers).status_code == 200  # type: ignore[arg-type]


def test_no_content_type_is_fine_and_every_answer_is_json(served: Served) -> None:
    answers = [
        served.client.post("/decide", content=json.dumps(ROW)),
        served.client.post("/decide", content="{"),
        served.client.get("/nowhere"),
        served.client.get("/health"),
    ]
    assert {answer.headers["content-type"] for answer in answers} == {"application/json"}


def test_integers_stay_exact_and_floats_stay_floats(served: Served) -> None:
    states = [{"n": 2**53 + 1}, {"n": 10**4000}, {"n": -(10**4000)}, {"n": 1}, {"n": 1.0}, {"n": True}]
    hashes = [served.decide(state=state).json()["prompt_sha256"] for state in states]
    assert hashes == [sha256_of({**ROW, "state": state}) for state in states]
    assert len(set(hashes)) == len(states)


def test_the_last_repeated_key_wins(served: Served) -> None:
    text = json.dumps(ROW)[:-1] + ', "id": "first", "id": "last", "state": {"a": 1, "a": 2}}'
    result = served.client.post("/decide", content=text).json()
    assert result["id"] == "last"
    assert result["prompt_sha256"] == sha256_of({**ROW, "state": {"a": 2}})


def test_the_state_keeps_its_key_order_and_its_characters(served: Served) -> None:
    state = {"zweitens": "Straße \U0001f600 \u2028 \x7f", "a": [None, -0.0, 1e-7, 1e22]}
    assert served.decide(state=state).json()["prompt_sha256"] == sha256_of({**ROW, "state": state})


def test_a_body_in_utf8_gives_the_same_prompt_as_one_in_escapes(served: Served) -> None:
    row = {**ROW, "state": "Straße \U0001f600"}
    escaped = served.client.post("/decide", content=json.dumps(row)).json()
    plain = served.client.post("/decide", content=json.dumps(row, ensure_ascii=False).encode()).json()
    assert escaped["prompt_sha256"] == plain["prompt_sha256"]


def test_further_keys_are_ignored(served: Served) -> None:
    options = [{**option, "note": 1} for option in OPTIONS]
    assert served.decide(extra={"x": 1}, options=options).json()["prompt_sha256"] == sha256_of(ROW)
    shared = served.shared({**DECISION, "extra": []}, extra=None)
    assert shared.json()["results"][0]["prompt_sha256"] == sha256_of(ROW)


ROW_FAULTS = [
    ({"options": None, "question": ...}, "Row is missing fields: ['question']"),
    ({"id": ..., "state": ..., "question": ..., "options": ...},
     "Row is missing fields: ['id', 'options', 'question', 'state']"),
    ({"id": "", "state": ""}, "id and question must be nonempty strings"),
    ({"id": 7}, "id and question must be nonempty strings"),
    ({"question": ["x"]}, "id and question must be nonempty strings"),
    ({"state": "", "options": []}, "state must be a nonempty string, object, or array"),
    ({"state": {}}, "state must be a nonempty string, object, or array"),
    ({"state": []}, "state must be a nonempty string, object, or array"),
    ({"state": None}, "state must be a nonempty string, object, or array"),
    ({"state": 5}, "state must be a nonempty string, object, or array"),
    ({"state": True}, "state must be a nonempty string, object, or array"),
    ({"options": OPTIONS[:1]}, "options must contain 2-16 entries"),
    ({"options": [{"id": str(n), "description": ""} for n in range(17)]}, "options must contain 2-16 entries"),
    ({"options": {"a": 1, "b": 2}}, "options must contain 2-16 entries"),
    ({"options": ["a", "b"]}, "Each option needs string id and description fields"),
    ({"options": [{"id": "a"}, {"id": "a"}]}, "Each option needs string id and description fields"),
    ({"options": [{"id": 1, "description": ""}, *OPTIONS]}, "Each option needs string id and description fields"),
    ({"options": [OPTIONS[0], OPTIONS[0]]}, "Option IDs must be unique"),
]  # fmt: skip


@pytest.mark.parametrize(("changes", "message"), ROW_FAULTS)
def test_a_row_that_breaks_a_rule_is_a_422_with_the_contracts_text(
    served: Served, engine, changes: dict, message: str
) -> None:
    row = {key: value for key, value in {**ROW, **changes}.items() if value is not ...}
    answer = served.post("/decide", row)
    assert (answer.status_code, answer.json()) == (422, {"error": {"code": "invalid_request", "message": message}})
    assert engine.calls == []


def test_sixteen_options_and_empty_option_texts_pass(served: Served) -> None:
    options = [{"id": "" if n == 0 else str(n), "description": ""} for n in range(16)]
    result = served.decide(options=options).json()
    assert result["option_ids"] == [option["id"] for option in options]


def test_a_row_with_too_many_tokens_is_refused_and_never_cut(serving) -> None:
    tokens = served_tokens = serving().decide().json()["input_tokens"]
    assert serving(max_tokens=served_tokens).decide().status_code == 200
    answer = serving(max_tokens=tokens - 1).decide()
    assert answer.status_code == 422
    expected = f"Row ticket-1: {tokens} input tokens exceed limit {tokens - 1}; no truncation allowed"
    assert answer.json()["error"]["message"] == expected


def test_too_many_tokens_in_one_shared_row_refuse_the_request(serving, engine) -> None:
    served = serving(engine, max_tokens=200)
    long = {**DECISION, "id": "long", "question": "word " * 300}
    answer = served.shared(DECISION, long)
    assert answer.status_code == 422
    assert answer.json()["error"]["message"].startswith("Row long: ")
    assert engine.calls == []


@pytest.mark.parametrize("body", [None, [], "text", 3, True, [ROW]])
@pytest.mark.parametrize("path", ["/decide", "/decide/shared"])
def test_a_body_that_is_no_object_is_a_422(served: Served, path: str, body: object) -> None:
    answer = served.post(path, body)
    assert (answer.status_code, answer.json()["error"]["message"]) == (422, "The body must be a JSON object")


@pytest.mark.parametrize("decisions", [[], None, {}, "x", [DECISION] * 6])
def test_decisions_must_be_one_to_the_limit(serving, engine, decisions: object) -> None:
    answer = serving(engine, max_decisions=5).post("/decide/shared", {"state": "s", "decisions": decisions})
    assert (answer.status_code, answer.json()["error"]["code"]) == (422, "invalid_request")
    assert "1 to 5" in answer.json()["error"]["message"]
    assert engine.calls == []


def test_as_many_decisions_as_the_limit_pass(serving) -> None:
    decisions = [{**DECISION, "id": str(n)} for n in range(5)]
    assert len(serving(max_decisions=5).shared(*decisions).json()["results"]) == 5


@pytest.mark.parametrize("entry", [None, [], "x", 1])
def test_a_decision_that_is_no_object_is_named_by_its_place(served: Served, entry: object) -> None:
    answer = served.post("/decide/shared", {"state": "s", "decisions": [DECISION, entry]})
    assert answer.status_code == 422
    assert "decisions[1]" in answer.json()["error"]["message"]


def test_repeated_decision_ids_are_refused(served: Served, engine) -> None:
    answer = served.shared(DECISION, DECISION)
    assert (answer.status_code, answer.json()["error"]["message"]) == (422, "Decision IDs must be unique")
    assert engine.calls == []


@pytest.mark.parametrize("path", ["/", "/nowhere", "/decide/", "/health/", "/docs", "/redoc", "//decide", "/decide/x"])
def test_an_unknown_path_is_a_404_and_a_slash_makes_another_path(served: Served, path: str) -> None:
    answer = served.client.get(path, follow_redirects=False)
    assert (answer.status_code, answer.json()["error"]["code"]) == (404, "not_found")


@pytest.mark.parametrize(
    ("method", "path", "allowed"),
    [
        ("GET", "/decide", "POST"),
        ("HEAD", "/decide", "POST"),
        ("OPTIONS", "/decide", "POST"),
        ("PUT", "/decide/shared", "POST"),
        ("DELETE", "/decide", "POST"),
        ("POST", "/health", "GET, HEAD"),
        ("POST", "/metrics", "GET, HEAD"),
        ("PATCH", "/openapi.json", "GET, HEAD"),
        ("BREW", "/decide", "POST"),
    ],
)
def test_a_wrong_method_is_a_405_that_lists_the_right_ones(
    served: Served, method: str, path: str, allowed: str
) -> None:
    answer = served.client.request(method, path)
    assert answer.status_code == 405
    assert sorted(answer.headers["allow"].split(", ")) == allowed.split(", ")
    if method != "HEAD":
        assert answer.json()["error"]["code"] == "method_not_allowed"


def test_every_answer_has_a_request_id_of_its_own(served: Served) -> None:
    answers = [served.client.get("/health"), served.client.get("/nowhere"), served.decide(), served.decide(id="")]
    assert len({answer.headers["x-request-id"] for answer in answers}) == 4
