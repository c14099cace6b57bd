from __future__ import annotations

import json
import uuid
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest
from tests.unit.hub.comparisons.makers import case, ranking

from steelyard.hub.catalog.domain import Artifact, Deployment, EmbeddingIdentity, Runtime
from steelyard.hub.comparisons.capabilities.retrieval import Retrieval
from steelyard.hub.comparisons.domain.participants import Side
from steelyard.hub.gateway.domain.calls import read_call

if TYPE_CHECKING:
    from steelyard.hub.comparisons.domain.capability import Capability

AT = datetime(2026, 11, 2, 9, 30, tzinfo=UTC)
ID = uuid.UUID(int=1)
OWNED: dict[str, Any] = {"id": ID, "project_id": uuid.UUID(int=2), "created_at": AT}
SIDE = Side(
    deployment=Deployment(
        **OWNED, slug="minilm", capability="rag.embedding@1", artifact_id=ID, runtime_id=ID, embedding_identity_id=ID,
        served_model="minilm", stage="production", allows_truncation=False, is_active=True, version=1,
    ),
    artifact=Artifact(**OWNED, slug="weights", source="hf", revision="r1", files={"model.onnx": "ab" * 32}),
    runtime=Runtime(
        **OWNED, slug="box", kind="steelyard", base_url="http://user:secret@10.0.0.7/v1", on_overlong="reports",
        key_variable="BOX_KEY", timeout_s=1.5,
    ),
    identity=EmbeddingIdentity(
        **OWNED, slug="minilm-384", model="MiniLM", dimension=384, pooling="mean", is_normalized=True,
        query_prompt="query: ", document_prompt="", max_length=256, dtype="int8",
    ),
)  # fmt: skip


def capability() -> Capability:
    return Retrieval()


def test_its_names_and_versions():
    assert (capability().name, capability().metrics_version) == ("rag.embedding@1", "rag.embedding-1")
    assert [metric.name for metric in capability().metrics] == ["ndcg", "recall", "mrr", "map", "hit_rate", "judged"]
    assert capability().metrics[0].title == "nDCG@{k}"
    assert all(metric.higher_is_better for metric in capability().metrics)


def test_the_profile_names_everything_that_makes_vectors_comparable():
    assert capability().profile_of(SIDE) == {
        "artifact": {
            "id": str(ID), "slug": "weights", "source": "hf", "revision": "r1", "files": {"model.onnx": "ab" * 32},
        },
        "runtime": {"id": str(ID), "slug": "box", "kind": "steelyard", "on_overlong": "reports"},
        "embedding_identity": {
            "id": str(ID), "slug": "minilm-384", "model": "MiniLM", "dimension": 384, "pooling": "mean",
            "is_normalized": True, "query_prompt": "query: ", "document_prompt": "", "max_length": 256, "dtype": "int8",
        },
        "dimension": 384,
    }  # fmt: skip


def test_the_profile_is_json_without_floats_and_without_where_the_runtime_is():
    text = json.dumps(capability().profile_of(SIDE))
    json.loads(text, parse_float=pytest.fail)
    assert not any(secret in text for secret in ("http", "10.0.0.7", "secret", "BOX_KEY"))


def test_a_consumer_is_given_the_query_and_never_the_labels():
    assert capability().case_of(case(7, right=1)) == {"case_id": str(uuid.UUID(int=7)), "query": "question 7"}


@pytest.mark.parametrize("query", ["question", " question ", "\u00fc\u4f60\U0001f600", '"\\\n'])
def test_the_input_s_digest_is_the_gateway_s(query):
    asked = case(1)
    asked = type(asked)(**{**vars(asked), "query": query})
    assert capability().input_sha256(asked) == read_call({"model": "stable", "input": query}).input_sha256


def test_rank_is_the_list_s_order_whatever_the_scores_say():
    numbers = Retrieval().measure(case(1, right=1), ranking("wrong", "right"), settings={"top_k": 2})
    named = dict(zip((metric.name for metric in Retrieval.metrics), numbers, strict=True))
    assert named == pytest.approx(
        {"ndcg": 0.63092975357, "recall": 1, "mrr": 0.5, "map": 0.5, "hit_rate": 1, "judged": 0.5}
    )


def test_k_is_the_settings_top_k():
    answer = ranking("wrong", "other", "right")
    assert Retrieval().measure(case(1, right=1), answer, settings={"top_k": 2}) == (0, 0, 0, 0, 0, 0)
    assert not Retrieval().is_passed(case(1, right=1), answer, settings={"top_k": 2})
    assert Retrieval().is_passed(case(1, right=1), answer, settings={"top_k": 3})
    assert Retrieval().unjudged(case(1, right=1), answer, settings={"top_k": 1}) == ["wrong"]


def test_an_empty_ranking_is_no_pass_and_has_nothing_unjudged():
    assert Retrieval().measure(case(1), [], settings={"top_k": 5}) == (0,) * 6
    assert not Retrieval().is_passed(case(1), [], settings={"top_k": 5})
    assert Retrieval().unjudged(case(1), [], settings={"top_k": 5}) == []
