"""What the hub counts, in Prometheus's format."""

from __future__ import annotations

from typing import TYPE_CHECKING

from prometheus_client import CollectorRegistry, Counter, Gauge, generate_latest

if TYPE_CHECKING:
    from collections.abc import Callable


class Metrics:
    """Counters of one process, in a registry of their own."""

    def __init__(self, *, in_progress: Callable[[], float]) -> None:
        self.registry = CollectorRegistry()
        self._requests = Counter(
            "steelyard_hub_requests",
            "Requests answered, by path and HTTP status (499: the client hung up first).",
            ["path", "status"],
            registry=self.registry,
        )
        gauge = Gauge("steelyard_hub_embeddings_in_progress", "Embedding requests in progress.", registry=self.registry)
        gauge.set_function(in_progress)

    def count_request(self, *, path: str, status: int) -> None:
        """Count one answered request."""
        self._requests.labels(path=path, status=str(status)).inc()

    def render(self) -> bytes:
        """Return everything in Prometheus's text format."""
        return generate_latest(self.registry)
