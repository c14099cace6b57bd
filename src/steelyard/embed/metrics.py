"""What the server counts, in Prometheus's format. Names and help texts are for the operator's dashboards."""

from __future__ import annotations

from typing import TYPE_CHECKING

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

if TYPE_CHECKING:
    from collections.abc import Callable

    from steelyard.embed.worker import BatchCost

# From a fake runtime's microseconds to a long batch on a small processor.
_SECONDS_BUCKETS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)
_ROWS_BUCKETS = (1, 2, 4, 8, 16, 32, 64, 128)
_SHARE_BUCKETS = (0, 0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.5)


class Metrics:
    """Counters of one server, in a registry of their own."""

    def __init__(
        self,
        *,
        queue_depth: Callable[[], float],
        waiting_rows: Callable[[], float],
        running_seconds: Callable[[], float],
    ) -> None:
        registry = self._registry = CollectorRegistry()
        self._requests = Counter(
            "steelyard_embed_requests",
            "Requests answered, by path and HTTP status (499: the client hung up first).",
            ["path", "status"],
            registry=registry,
        )
        self._inputs = Counter("steelyard_embed_inputs", "Inputs embedded.", registry=registry)
        self._truncated = Counter("steelyard_embed_truncated_inputs", "Inputs cut on request.", registry=registry)
        self._tokens = Counter(
            "steelyard_embed_tokens", "Tokens that went through the model, padding not counted.", registry=registry
        )
        self._padding = Counter(
            "steelyard_embed_padding_tokens", "Padding that went through the model.", registry=registry
        )
        self._rows = Histogram(
            "steelyard_embed_batch_rows", "Inputs in each batch.", registry=registry, buckets=_ROWS_BUCKETS
        )
        self._share = Histogram(
            "steelyard_embed_batch_padding_share",
            "Padding over all tokens of each batch.",
            registry=registry,
            buckets=_SHARE_BUCKETS,
        )
        self._seconds = Histogram(
            "steelyard_embed_seconds",
            "Seconds by phase: `tokenize`, `wait` (for the model), `model` (one batch), `render`, and `total`, from a "
            "request's body to its answer.",
            ["phase"],
            registry=registry,
            buckets=_SECONDS_BUCKETS,
        )
        self._failures = Counter(
            "steelyard_embed_failures", "Requests that the model failed, by error code.", ["code"], registry=registry
        )
        gauges = {
            "queue_depth": ("POSTs in progress, waiting and embedding.", queue_depth),
            "waiting_rows": ("Inputs that wait for the model.", waiting_rows),
            "running_call_seconds": ("Age of the running batch; 0 if none.", running_seconds),
        }
        for name, (meaning, value) in gauges.items():
            Gauge(f"steelyard_embed_{name}", meaning, registry=registry).set_function(value)

    def count_request(self, *, path: str, status: int) -> None:
        """Count one answered request."""
        self._requests.labels(path=path, status=str(status)).inc()

    def count_inputs(self, *, inputs: int, truncated: int) -> None:
        """Count the inputs of one request that was embedded."""
        self._inputs.inc(inputs)
        self._truncated.inc(truncated)

    def count_batch(self, cost: BatchCost) -> None:
        """Count one batch."""
        self._tokens.inc(cost.tokens)
        self._padding.inc(cost.padding)
        self._rows.observe(cost.rows)
        self._share.observe(cost.padding / (cost.tokens + cost.padding))
        self.count_phase("model", cost.seconds)

    def count_phase(self, phase: str, seconds: float) -> None:
        """Count the seconds of one phase."""
        self._seconds.labels(phase=phase).observe(seconds)

    def count_failure(self, code: str) -> None:
        """Count one request that the model failed."""
        self._failures.labels(code=code).inc()

    def render(self) -> bytes:
        """Return everything in Prometheus's text format."""
        return generate_latest(self._registry)
