"""Comparisons as the hub's API gives them, small and made by hand."""

from __future__ import annotations

import uuid
from typing import Any

Thing = dict[str, Any]
HEX = {"corpus_sha256": "ab" * 32, "retrieval_config_sha256": "cd" * 32, "pins_digest": "ef" * 32}


def identity(number: int) -> str:
    return str(uuid.UUID(int=number))


def side(name: str, number: int) -> Thing:
    return {
        "deployment": {"id": identity(number), "slug": name, "served_model": None, "allows_truncation": False},
        "route": {"id": identity(number + 1), "slug": f"{name}-route"},
        "index_ref": f"index-{name}",
        "dimension": 384,
        "artifact": {
            "id": identity(number + 2), "slug": name, "source": f"hub/{name}", "revision": "1",
            "files": {"model.onnx": f"{number:02x}" * 32},
        },
        "runtime": {"id": identity(number + 3), "slug": f"embed-{name}", "kind": "steelyard", "on_overlong": "reports"},
        "embedding_identity": {
            "id": identity(number + 4), "slug": name, "model": name, "dimension": 384, "pooling": "mean",
            "is_normalized": True, "query_prompt": "", "document_prompt": "", "max_length": 256, "dtype": "int8",
        },
    }  # fmt: skip


def comparison(status: str = "running", **fields: Any) -> Thing:
    return {
        "id": identity(1),
        "project_id": identity(2),
        "project_binding_id": identity(3),
        "capability": "rag.embedding@1",
        "consumer_client_id": identity(4),
        "suite_revision_id": identity(5),
        "current_deployment_id": identity(16),
        "candidate_deployment_id": identity(32),
        "candidate_route_id": identity(33),
        **HEX,
        "current_index_ref": "index-old",
        "candidate_index_ref": "index-new",
        "idempotency_key": "key-0001",
        "pins": {
            "capability": "rag.embedding@1",
            "project_binding_id": identity(3),
            "consumer_client_id": identity(4),
            "suite": {
                "id": identity(6), "slug": "faq", "revision_id": identity(5), "number": 3, "digest": "01" * 32,
                "case_count": 4,
            },
            **HEX,
            "current": side("old", 16),
            "candidate": side("new", 32),
        },
        "status": status,
        "version": 2,
        "case_count": 4,
        "current_completed_cases": 2,
        "candidate_completed_cases": 1,
        "created_at": "2026-12-01T09:00:00Z",
        "claimed_at": "2026-12-01T09:00:10Z",
        "lease_expires_at": "2026-12-01T09:02:10Z",
        "deadline_at": "2026-12-01T10:00:10Z",
        "claim_expires_at": "2026-12-01T09:02:10Z",
        "ended_at": None,
        "error_code": None,
        "consumer_revision_sha256": None,
        "production_promotion_performed": False,
        "evaluation_summary": None,
        **fields,
    }  # fmt: skip


def metric(title: str, current: float, candidate: float, **fields: Any) -> Thing:
    delta = candidate - current
    return {
        "title": title,
        "higher_is_better": True,
        "current": current,
        "candidate": candidate,
        "delta": delta,
        "interval": [delta - 0.1, delta + 0.1],
        "one_sided": [delta - 0.08, delta + 0.08],
        "p_value": 0.25,
        "wins": 1,
        "ties": 1,
        "losses": 2,
        **fields,
    }


def of_leg(errors: int, unjudged: int, reported: tuple[float, float] | None = (12.5, 130.0)) -> Thing:
    shown = None if reported is None else {"p50": reported[0], "p95": reported[1]}
    return {
        "error_count": errors,
        "latency_ms": {"reported": shown, "gateway": {"p50": None, "p95": None}},
        "unjudged_count": unjudged,
    }


def summary(**fields: Any) -> Thing:
    return {
        "metrics_version": "rag.embedding@1/1",
        "case_count": 4,
        "critical_case_count": 2,
        "comparable": True,
        "comparability_reasons": [],
        "eligibility": "ineligible",
        "reasons": [{"code": "CRITICAL_REGRESSION", "detail": "A critical case got lost."}],
        "cases_needed": None,
        "primary_metric": "ndcg",
        "rule": {"margin": 0.05, "minimum_cases": 30, "candidate_error_rate_limit": 0.0},
        "metric_deltas": {
            "recall": metric("Recall@3", 0.75, 0.5, p_value=0.0001),
            "ndcg": metric("nDCG@3", 0.7, 0.5125),
            "error_rate": metric("Error rate", 0.0, 0.25, higher_is_better=False),
        },
        "legs": {"current": of_leg(0, 1), "candidate": of_leg(1, 2, (8.0, 9.5))},
        "critical_regression_count": 1,
        "critical_regressions": [identity(101)],
        "bootstrap": {"resamples": 10000, "seed": 7},
        **fields,
    }


def outcome(*chunks: str, ndcg: float, error: str | None = None, latency_ms: float = 10.0, **fields: Any) -> Thing:
    results = [
        {"chunk_id": chunk, "document_id": chunk.partition("-")[0], "score": 1 - place / 8}
        for place, chunk in enumerate(chunks)
    ]
    return {
        "ranked_results": results,
        "latency_ms": latency_ms,
        "error_code": error,
        "gateway_request_id": f"request-{'-'.join(chunks) or 'none'}",
        "gateway_latency_ms": latency_ms * 0.9,
        "metrics": {"ndcg": ndcg, "recall": ndcg, "error_rate": float(error is not None)},
        **fields,
    }


def case(number: int, query: str, labels: dict[str, int], current: Thing | None, candidate: Thing | None) -> Thing:
    return {
        "case_id": identity(number), "query": query, "critical": number > 100, "labels": labels, "current": current,
        "candidate": candidate,
    }  # fmt: skip


def cases() -> list[Thing]:
    return [
        case(100, "Where is my parcel?", {"ship-1": 3}, outcome("ship-1", ndcg=1.0), outcome("ship-1", ndcg=1.0)),
        case(
            101, "How do I get a refund?", {"bill-7": 3, "bill-2": 1}, outcome("bill-7", "faq-9", ndcg=0.8),
            outcome(ndcg=0.0, error="GATEWAY_TIMEOUT", latency_ms=900.0),
        ),
        case(102, "Do you ship abroad?", {"ship-4": 1}, outcome("ship-2", ndcg=0.0), outcome("ship-4", ndcg=1.0)),
        case(
            99, "Can I change my order?", {"order-1": 2}, outcome("order-1", ndcg=1.0),
            outcome("order-9", "order-3", ndcg=0.05),
        ),
    ]  # fmt: skip


def completed(**fields: Any) -> Thing:
    return comparison(
        "completed", evaluation_summary=summary(**fields), consumer_revision_sha256="23" * 32,
        current_completed_cases=4, candidate_completed_cases=4, ended_at="2026-12-01T09:01:00Z",
    )  # fmt: skip
