"""The capability `rag.embedding@1`: a project retrieves chunks for each query by vectors of its deployment.

An answer is a list of `{"chunk_id", "document_id", "score"}`, best first. The list's order is the ranking; scores are
the consumer's own and never sort anything here.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from steelyard.hall.canonical import sha256_of_json
from steelyard.hub.comparisons.capabilities import measures
from steelyard.hub.comparisons.domain.capability import Metric

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from steelyard.hub.catalog.domain import Artifact, EmbeddingIdentity, Runtime
    from steelyard.hub.comparisons.domain.participants import Side
    from steelyard.hub.suites.domain import Case

_MEASURES: dict[str, tuple[str, Callable[..., float]]] = {
    "ndcg": ("nDCG@{k}", measures.ndcg),
    "recall": ("recall@{k}", measures.recall),
    "mrr": ("MRR@{k}", measures.reciprocal_rank),
    "map": ("MAP@{k}", measures.average_precision),
    "hit_rate": ("hit rate@{k}", measures.hit),
    "judged": ("judged@{k}", measures.judged),
}


@dataclass(frozen=True)
class Retrieval:
    """Ranked retrieval, measured at the settings' `top_k`; the port `Capability` promises the rest."""

    name: ClassVar[str] = "rag.embedding@1"
    metrics_version: ClassVar[str] = "rag.embedding-1"
    metrics: ClassVar[tuple[Metric, ...]] = tuple(
        Metric(name=name, title=title) for name, (title, _measure) in _MEASURES.items()
    )

    def profile_of(self, side: Side) -> dict[str, Any]:
        """Return the artifact, the runtime without where and how it is reached, and the embedding identity."""
        return {
            "artifact": _artifact(side.artifact),
            "runtime": _runtime(side.runtime),
            "embedding_identity": _identity(side.identity),
            "dimension": side.identity.dimension,
        }

    def case_of(self, case: Case) -> dict[str, Any]:
        """Return the case's id and query."""
        return {"case_id": str(case.case_id), "query": case.query}

    def input_sha256(self, case: Case) -> str:
        """Return the digest of the list of the query alone, as the gateway logs a lone input."""
        return sha256_of_json([case.query])

    def measure(self, case: Case, answer: list[dict[str, Any]], *, settings: Mapping[str, Any]) -> tuple[float, ...]:
        """Return nDCG, recall, reciprocal rank, average precision, hit and judged, each at `top_k`."""
        ranking, k = _ranking(answer), settings["top_k"]
        return tuple(measure(ranking, labels=case.labels, k=k) for _title, measure in _MEASURES.values())

    def is_passed(self, case: Case, answer: list[dict[str, Any]], *, settings: Mapping[str, Any]) -> bool:
        """Tell whether a relevant chunk is within `top_k`."""
        return measures.hit(_ranking(answer), labels=case.labels, k=settings["top_k"]) > 0

    def unjudged(self, case: Case, answer: list[dict[str, Any]], *, settings: Mapping[str, Any]) -> list[str]:
        """Return the ids of the chunks within `top_k` that have no label, best first."""
        return measures.unjudged(_ranking(answer), labels=case.labels, k=settings["top_k"])


def _ranking(answer: list[dict[str, Any]]) -> list[str]:
    return [result["chunk_id"] for result in answer]


def _artifact(artifact: Artifact) -> dict[str, Any]:
    return {
        "id": str(artifact.id),
        "slug": artifact.slug,
        "source": artifact.source,
        "revision": artifact.revision,
        "files": dict(artifact.files),
    }


def _runtime(runtime: Runtime) -> dict[str, Any]:
    return {"id": str(runtime.id), "slug": runtime.slug, "kind": runtime.kind, "on_overlong": runtime.on_overlong}


def _identity(identity: EmbeddingIdentity) -> dict[str, Any]:
    return {
        "id": str(identity.id),
        "slug": identity.slug,
        "model": identity.model,
        "dimension": identity.dimension,
        "pooling": identity.pooling,
        "is_normalized": identity.is_normalized,
        "query_prompt": identity.query_prompt,
        "document_prompt": identity.document_prompt,
        "max_length": identity.max_length,
        "dtype": identity.dtype,
    }
