"""Creating an intent: what it needs, what is refused for what it is and for the state it is in, and its key."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, Any

import pytest
from sqlalchemy import func, select
from tests.comparing import PATH, make_stage
from tests.hub_api import case, revision
from tests.problems import refused
from tests.targets import CHANGES, close_route, reopen_route, revoke_client

from steelyard.hall.canonical import sha256_of_json
from steelyard.hub.db.tables import comparisons

if TYPE_CHECKING:
    from tests.comparing import Stage

NOWHERE = "00000000-0000-4000-8000-000000000000"
IDS = (
    "project_binding_id", "consumer_client_id", "suite_revision_id", "current_deployment_id",
    "candidate_deployment_id", "candidate_route_id",
)  # fmt: skip


def rows(stage: Stage) -> int:
    with stage.database.read() as connection:
        return connection.scalar(select(func.count()).select_from(comparisons)) or 0


def test_an_intent_is_pending_and_pins_both_sides(stage):
    body = stage.body()
    answer = stage.operator.post(PATH, **body)
    made = answer.json()
    assert (answer.status_code, answer.headers["location"]) == (201, f"/api/v1{PATH}/{made['id']}")
    assert "idempotent-replayed" not in answer.headers
    assert {name: made[name] for name in body} == body
    assert (made["status"], made["version"], made["error_code"], made["claimed_at"]) == ("pending", 1, None, None)
    pins = made["pins"]
    assert made["pins_digest"] == sha256_of_json(pins)
    for leg in ("current", "candidate"):
        assert pins[leg]["deployment"]["id"] == body[f"{leg}_deployment_id"]
        assert pins[leg]["index_ref"] == body[f"{leg}_index_ref"]
        assert pins[leg]["dimension"] == pins[leg]["embedding_identity"]["dimension"] == 4
        assert {"artifact", "runtime", "embedding_identity", "route"} <= set(pins[leg])
    assert pins["current"]["route"]["id"] == stage.ids["stable_route_id"]
    assert pins["candidate"]["route"]["id"] == body["candidate_route_id"]
    assert (pins["corpus_sha256"], pins["suite"]["revision_id"]) == (body["corpus_sha256"], body["suite_revision_id"])
    assert "base_url" not in str(pins)


SHAPES: dict[tuple[str, ...], list[Any]] = {
    IDS: [None, 1, True, "1", "", "canary-no-uuid", [NOWHERE], {}],
    ("corpus_sha256", "retrieval_config_sha256"): [
        None, "", "AB" * 32, "ab" * 31, "ab" * 32 + "a", "ab" * 32 + "\n", "zz" * 32, 12, "\uff41" * 64,
    ],
    ("current_index_ref", "candidate_index_ref"): [
        None, "", 1, "a" * 201, "canary\x00ref", "canary\u202eref", "canary\nref", ["canary-ref"],
    ],
    ("idempotency_key",): [
        None, "", "seven77", "k" * 129, "clé-unique-canary", "canary-key\n", "canary\tkey", "canary\x00key",
        "\N{FULLWIDTH LATIN SMALL LETTER A}" * 8, 12345678, ["canary-key"],
    ],
}  # fmt: skip


def test_no_wrong_shape_is_taken_or_comes_back(stage):
    for name, value in ((name, value) for names, values in SHAPES.items() for name in names for value in values):
        problem = refused(stage.operator.post(PATH, **stage.body(**{name: value})), 422, "INVALID_REQUEST")
        assert {error["where"] for error in problem["errors"]} == {f"body.{name}"}, (name, value)
    for name in stage.body():
        body = stage.body()
        del body[name]
        refused(stage.operator.post(PATH, **body), 422, "INVALID_REQUEST")
    for extra in ("status", "rule", "version", "canary-unknown-field", "claim_token"):
        refused(stage.operator.post(PATH, **stage.body(**{extra: "canary-value"})), 422, "INVALID_REQUEST")
    assert rows(stage) == 0


def test_both_indexes_must_be_named_apart(stage):
    body = stage.body(current_index_ref="canary-index", candidate_index_ref="canary-index")
    problem = refused(stage.operator.post(PATH, **body), 422, "INVALID_REQUEST")
    assert "two indexes" in problem["detail"]


def test_an_index_and_an_id_may_be_named_in_any_script_and_spelling(stage):
    upper = {name: stage.ids[name].upper() for name in IDS}
    made = stage.create(**upper, current_index_ref="ключ 索引 é", candidate_index_ref="ключ 索引 e\u0301")
    assert made["current_index_ref"] == "ключ 索引 é"
    assert {name: made[name] for name in IDS} == {name: stage.ids[name] for name in IDS}


@pytest.mark.parametrize("length", [8, 128])
def test_a_key_of_eight_to_128_printable_characters_is_taken(stage, length):
    assert stage.create(idempotency_key="~ k!" * (length // 4))["status"] == "pending"


def test_every_id_must_be_of_something(stage):
    for name in IDS:
        refused(stage.operator.post(PATH, **stage.body(**{name: NOWHERE})), 422, "UNKNOWN_REFERENCE")
        for other in IDS:  # The id of a thing of another kind is of nothing here.
            if other != name and {other, name} != {"current_deployment_id", "candidate_deployment_id"}:
                refused(stage.operator.post(PATH, **stage.body(**{name: stage.ids[other]})), 422, "UNKNOWN_REFERENCE")
    assert rows(stage) == 0


def test_everything_must_belong_to_one_binding(stage):
    other = make_stage(stage.asked, slug="other")
    for name in IDS:
        spared = frozenset(stage.ids.values())
        answer = stage.operator.post(PATH, **stage.body(**{name: other.ids[name]}))
        refused(answer, 422, "INVALID_REQUEST", spared=spared)
    assert rows(stage) == 0


def test_the_suites_own_digests_must_be_given(stage):
    refused(
        stage.operator.post(PATH, **stage.body(retrieval_config_sha256="ab" * 32)), 422, "RETRIEVAL_CONFIG_MISMATCH"
    )
    refused(stage.operator.post(PATH, **stage.body(corpus_sha256="cd" * 32)), 422, "CORPUS_MISMATCH")
    assert rows(stage) == 0


def test_a_newer_revision_with_another_corpus_needs_its_own_digests(stage):
    corpus = {"label_provenance": {"corpus_revision": "ef" * 32}}
    cases = [case(number, **corpus) for number in range(100)]
    content = revision(0, cases=cases, retrieval_settings={"top_k": 5, "min_score": 0.25})
    made = stage.operator.make(f"/suites/{stage.ids['suite_id']}/revisions", **content)
    own = {"suite_revision_id": made["id"], "retrieval_config_sha256": made["retrieval_config_sha256"]}
    refused(stage.operator.post(PATH, **stage.body(**own)), 422, "CORPUS_MISMATCH")
    comparison = stage.create(**own, corpus_sha256="ef" * 32)
    assert comparison["case_count"] == 100
    assert len(stage.claim(comparison)["cases"]) == 100


@pytest.mark.parametrize("change", [*(change for change, _undo in CHANGES.values()), revoke_client])
def test_what_is_in_a_wrong_state_is_not_compared(stage, change):
    change(stage)
    refused(stage.operator.post(PATH, **stage.body()), 409, "NOT_ELIGIBLE")
    assert rows(stage) == 0


def test_a_key_that_was_refused_is_free(stage):
    key = {"idempotency_key": "key-of-a-refused-one"}
    refused(stage.operator.post(PATH, **stage.body(**key, corpus_sha256="cd" * 32)), 422, "CORPUS_MISMATCH")
    close_route(stage)
    refused(stage.operator.post(PATH, **stage.body(**key)), 409, "NOT_ELIGIBLE")
    reopen_route(stage)
    assert stage.create(**key)["status"] == "pending"


def test_the_current_deployment_is_no_candidate_and_the_stable_route_leads_to_none(stage):
    same = stage.body(candidate_deployment_id=stage.ids["current_deployment_id"])
    refused(stage.operator.post(PATH, **same), 422, "INVALID_REQUEST")
    stable = stage.body(candidate_route_id=stage.ids["stable_route_id"])
    refused(stage.operator.post(PATH, **stable), 422, "INVALID_REQUEST")
    both = {**same, "candidate_route_id": stage.ids["stable_route_id"]}
    refused(stage.operator.post(PATH, **both), 422, "INVALID_REQUEST")
    swapped = stage.body(
        current_deployment_id=stage.ids["candidate_deployment_id"],
        candidate_deployment_id=stage.ids["current_deployment_id"],
    )
    refused(stage.operator.post(PATH, **swapped), 422, "INVALID_REQUEST")


def test_a_binding_compares_one_thing_at_a_time_until_it_has_ended(stage):
    first = stage.create()
    refused(stage.operator.post(PATH, **stage.body()), 409, "COMPARISON_ACTIVE")
    claim = stage.claim(first)
    refused(stage.operator.post(PATH, **stage.body()), 409, "COMPARISON_ACTIVE")
    stage.operator.post(f"{PATH}/{first['id']}/cancel", expected_version=2)
    refused(stage.operator.post(PATH, **stage.body()), 409, "COMPARISON_ACTIVE")
    refused(stage.operator.post(PATH, **stage.body(corpus_sha256="cd" * 32)), 422, "CORPUS_MISMATCH")
    stage.call(first, "finish", claim_token=claim["claim_token"], outcome="cancelled")
    second = stage.create()
    assert second["id"] != first["id"]
    other = make_stage(stage.asked, slug="other")
    assert other.create()["status"] == "pending"


# The key.


def test_an_identical_creation_is_answered_with_what_it_made_whatever_has_happened_since(stage):
    body = stage.body()
    first = stage.operator.post(PATH, **body)

    def replay(**fields: Any) -> Any:
        answer = stage.operator.post(PATH, **{**body, **fields})
        assert (answer.status_code, answer.headers["idempotent-replayed"]) == (200, "true"), answer.text
        assert answer.headers["location"] == first.headers["location"]
        return answer.json()

    assert replay() == first.json()
    assert replay(**{name: body[name].upper() for name in IDS}) == first.json()
    other_operator = stage.asked.caller("operator")
    assert other_operator.post(PATH, **body).json() == first.json()
    stage.operator.post(f"{PATH}/{first.json()['id']}/cancel", expected_version=1)
    assert replay()["status"] == "cancelled"
    active = stage.create()
    assert replay()["status"] == "cancelled"
    close_route(stage)
    assert replay() == stage.read(first.json())
    revoke_client(stage)
    assert replay() == stage.read(first.json())
    assert stage.read(active)["status"] == "pending"
    assert rows(stage) == 2


def test_a_key_with_another_input_conflicts_before_anything_else_is_looked_at(stage):
    key = {"idempotency_key": "the-one-key"}
    first = stage.create(**key)
    others: list[dict[str, Any]] = [
        {"candidate_index_ref": "index-canary-other"},
        {"current_index_ref": "index-canary-other"},
        {"corpus_sha256": "cd" * 32},
        {"retrieval_config_sha256": "cd" * 32},
        *({name: NOWHERE} for name in IDS[1:]),
    ]
    for fields in others:
        refused(stage.operator.post(PATH, **stage.body(**key, **fields)), 409, "IDEMPOTENCY_KEY_REUSED")
    assert stage.read(first) == first
    # Case and spaces count.
    for near in ("The-one-key", "the-one-key ", " the-one-key"):
        refused(stage.operator.post(PATH, **stage.body(idempotency_key=near)), 409, "COMPARISON_ACTIVE")


def test_each_binding_has_keys_of_its_own(stage):
    other = make_stage(stage.asked, slug="other")
    key = {"idempotency_key": "one-key-for-two"}
    first, second = stage.create(**key), other.create(**key)
    assert first["id"] != second["id"]
    assert stage.operator.post(PATH, **stage.body(**key)).json() == first
    assert stage.operator.post(PATH, **other.body(**key)).json() == second


def test_an_intent_names_no_secret_of_a_runtime_and_starts_nothing(stage):
    comparison = stage.create()
    [event] = stage.operator.get("/audit-events", action="comparison.create").json()["items"]
    assert event["before"] is None
    assert event["after"]["status"] == "pending"
    assert uuid.UUID(event["subject_id"]) == uuid.UUID(comparison["id"])
    assert stage.operator.get("/gateway-requests").json()["items"] == []
