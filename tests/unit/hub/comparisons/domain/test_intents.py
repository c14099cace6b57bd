"""What may be compared, what of it is pinned, and when it has drifted."""

from __future__ import annotations

import json
from dataclasses import fields, replace
from typing import TYPE_CHECKING, Any
from uuid import UUID

import pytest
from tests.unit.hub.comparisons.protocol_makers import CAPABILITY, CORPUS, INTENT, PARTICIPANTS, PENDING, PINS

from steelyard.hall.canonical import canonical_json, require_plain_json, sha256_of_json
from steelyard.hub.comparisons.domain import intents
from steelyard.hub.comparisons.domain.comparison import Intent
from steelyard.hub.errors import BrokenRule, CorpusMismatch, NotEligible, RetrievalConfigMismatch

if TYPE_CHECKING:
    from steelyard.hub.comparisons.domain.participants import Participants

ELSEWHERE = UUID(int=99)


def changed(path: str, **changes: Any) -> Participants:
    """Return the participants with fields of one of them changed: `candidate.deployment` is a side's part."""
    name, _, part = path.partition(".")
    one = getattr(PARTICIPANTS, name)
    inner = {part: replace(getattr(one, part), **changes)} if part else changes
    return replace(PARTICIPANTS, **{name: replace(one, **inner)})


def is_drifted(found: Participants) -> bool:
    return intents.is_drifted(INTENT, found, capability=CAPABILITY, pins_digest=PENDING.pins_digest)


def test_what_belongs_together_and_is_open_may_be_compared():
    intents.check_belongs(INTENT, PARTICIPANTS)
    intents.check_eligible(PARTICIPANTS)
    assert not is_drifted(PARTICIPANTS)


ASTRAY: dict[str, tuple[Participants, type[BrokenRule], str]] = {
    "a client of another binding": (changed("client", project_binding_id=ELSEWHERE), BrokenRule, "consumer"),
    "another project's current deployment": (
        changed("current.deployment", project_id=ELSEWHERE), BrokenRule, "current deployment belongs to another"),
    "another project's candidate": (
        changed("candidate.deployment", project_id=ELSEWHERE), BrokenRule, "candidate deployment belongs to another"),
    "another project's suite": (changed("suite", project_id=ELSEWHERE), BrokenRule, "suite revision belongs"),
    "a route of another binding": (
        changed("candidate_route", project_binding_id=ELSEWHERE), BrokenRule, "route belongs to another binding"),
    "a route to another deployment": (
        changed("candidate_route", deployment_id=ELSEWHERE), BrokenRule, "does not lead to the candidate"),
    "the stable route": (
        changed("candidate_route", kind="stable", deployment_id=None), BrokenRule, "does not lead to the candidate"),
    "other retrieval settings": (
        changed("revision", retrieval_config_sha256="0" * 64), RetrievalConfigMismatch, "not that of"),
    "another corpus": (replace(PARTICIPANTS, corpora=frozenset({"0" * 64})), CorpusMismatch, "not the corpus"),
    "two corpora": (replace(PARTICIPANTS, corpora=frozenset({CORPUS, "0" * 64})), CorpusMismatch, "not the corpus"),
    "no corpus": (replace(PARTICIPANTS, corpora=frozenset()), CorpusMismatch, "not the corpus"),
}  # fmt: skip


@pytest.mark.parametrize("case", ASTRAY.values(), ids=ASTRAY)
def test_what_does_not_belong_together_breaks_a_rule(case):
    found, kind, words = case
    with pytest.raises(kind, match=words) as refusal:
        intents.check_belongs(INTENT, found)
    assert type(refusal.value) is kind
    assert is_drifted(found)


CLOSED: dict[str, Participants] = {
    "a closed binding": changed("binding", is_active=False),
    "a revoked client": changed("client", is_active=False),
    "a client that is not authorised": changed("client", capabilities=[]),
    "a pointer that moved": changed("binding", current_deployment_id=ELSEWHERE),
    "a pointer at nothing": changed("binding", current_deployment_id=None),
    "a retired current deployment": changed("current.deployment", is_active=False),
    "a current deployment that left production": changed("current.deployment", stage="nonproduction"),
    "a retired candidate": changed("candidate.deployment", is_active=False),
    "a candidate that went to production": changed("candidate.deployment", stage="production"),
    "a closed route": changed("candidate_route", is_active=False),
}


@pytest.mark.parametrize("found", CLOSED.values(), ids=CLOSED)
def test_what_is_closed_or_moved_is_not_eligible(found):
    intents.check_belongs(INTENT, found)
    with pytest.raises(NotEligible):
        intents.check_eligible(found)
    assert is_drifted(found)


def test_a_binding_of_another_capability_is_no_comparison_s():
    found = changed("binding", capability="semantic.decision@1")
    with pytest.raises(NotEligible, match="not authorised"):
        intents.check_eligible(found)


PINNED: dict[str, Participants] = {
    f"{path} {name}": changed(path, **{name: value})
    for path, name, value in (
        ("suite", "slug", "other"),
        ("revision", "digest", "0" * 64),
        ("revision", "number", 9),
        ("revision", "case_count", 9),
        ("stable_route", "id", ELSEWHERE),
        *(
            (f"{side}.{part}", name, value)
            for side in ("current", "candidate")
            for part, name, value in (
                ("deployment", "served_model", "other"),
                ("deployment", "allows_truncation", True),
                ("artifact", "id", ELSEWHERE),
                ("artifact", "revision", "other"),
                ("artifact", "files", {"f": "0" * 64}),
                ("runtime", "kind", "vllm"),
                ("runtime", "on_overlong", "truncates"),
                ("identity", "model", "other"),
                ("identity", "dimension", 9),
                ("identity", "pooling", "cls"),
                ("identity", "query_prompt", "query: "),
                ("identity", "is_normalized", False),
                ("identity", "max_length", 9),
                ("identity", "dtype", "float16"),
            )
        ),
    )
}


@pytest.mark.parametrize("found", PINNED.values(), ids=PINNED)
def test_what_is_pinned_may_not_change(found):
    intents.check_belongs(INTENT, found)
    intents.check_eligible(found)
    assert is_drifted(found)


FREE: dict[str, Participants] = {
    "a name": changed("suite", name="Other"),
    "a version": changed("binding", version=9),
    "where a runtime is reached": changed("candidate.runtime", base_url="http://127.0.0.1:1/v1"),
    "how it is reached": changed("candidate.runtime", key_variable="KEY", timeout_s=1.0),
    "a client's name": changed("client", name="Other"),
}


@pytest.mark.parametrize("found", FREE.values(), ids=FREE)
def test_what_does_not_change_a_vector_may_change(found):
    assert not is_drifted(found)


def test_the_pins_name_both_sides_with_their_routes_and_indexes_apart():
    assert PINS["current"]["deployment"]["id"] == str(INTENT.current_deployment_id)
    assert PINS["candidate"]["deployment"]["id"] == str(INTENT.candidate_deployment_id)
    assert PINS["current"]["route"] == {"id": str(PARTICIPANTS.stable_route.id), "slug": "stable"}
    assert PINS["candidate"]["route"]["id"] == str(INTENT.candidate_route_id)
    assert (PINS["current"]["index_ref"], PINS["candidate"]["index_ref"]) == ("index-current", "index-candidate")
    assert PINS["current"]["dimension"] == PARTICIPANTS.current.identity.dimension
    assert (PINS["corpus_sha256"], PINS["retrieval_config_sha256"]) == (CORPUS, INTENT.retrieval_config_sha256)
    assert PINS["suite"]["revision_id"] == str(INTENT.suite_revision_id)
    assert PINS["project_binding_id"] == str(INTENT.project_binding_id)
    assert PINS["consumer_client_id"] == str(INTENT.consumer_client_id)


def test_the_pins_are_plain_json_without_floats_so_that_any_language_digests_them_alike():
    require_plain_json(PINS)
    assert json.loads(canonical_json(PINS), parse_float=pytest.fail) == PINS


OTHER: dict[str, Any] = {
    **{field.name: ELSEWHERE for field in fields(Intent) if field.name.endswith("_id")},
    "corpus_sha256": "0" * 64,
    "retrieval_config_sha256": "1" * 64,
    "current_index_ref": "other",
    "candidate_index_ref": "another",
}


@pytest.mark.parametrize("name", [field.name for field in fields(Intent)])
def test_two_intents_are_the_same_only_if_every_field_is(name):
    assert intents.input_digest(replace(INTENT)) == intents.input_digest(INTENT)
    assert intents.input_digest(replace(INTENT, **{name: OTHER[name]})) != intents.input_digest(INTENT)


def test_the_digest_of_an_intent_is_over_its_canonical_json_and_not_its_key():
    names = {field.name: str(getattr(INTENT, field.name)) for field in fields(Intent)}
    assert "idempotency_key" not in names
    assert intents.input_digest(INTENT) == sha256_of_json(names)
