"""What the server counts, in Prometheus's format. Names and help texts are for the operator's dashboards."""

from __future__ import annotations

from typing import TYPE_CHECKING

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

# From a fake engine's microseconds to a long shared call on a small CPU.
_SECONDS_BUCKETS = (0.001, 0.005, 0.01, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120)


class Metrics:
    """Counters of one server, in a registry of their own."""

    def __init__(self, *, queue_depth: Callable[[], float], running_seconds: Callable[[], float]) -> None:
        self._registry = CollectorRegistry()
        self._requests = Counter(
            "steelyard_decide_requests",
            "Requests answered, by path and HTTP status (499: the client hung up first).",
            ["path", "status"],
            registry=self._registry,
        )
        self._seconds = Histogram(
            "steelyard_decide_scoring_seconds",
            "Seconds of scoring calls by phase; `total` covers the whole call.",
            ["phase"],
            registry=self._registry,
            buckets=_SECONDS_BUCKETS,
        )
        self._tokens = Counter(
            "steelyard_decide_evaluated_tokens", "Tokens that went through the model.", registry=self._registry
        )
        self._rows = Counter("steelyard_decide_rows", "Rows scored, by scorer.", ["scorer"], registry=self._registry)
        self._out_of_memory = Counter(
            "steelyard_decide_out_of_memory", "Calls that ran out of memory.", registry=self._registry
        )
        depth = Gauge(
            "steelyard_decide_queue_depth", "POSTs in progress, waiting and scoring.", registry=self._registry
        )
        depth.set_function(queue_depth)
        running = Gauge(
            "steelyard_decide_running_call_seconds", "Age of the running call; 0 if none.", registry=self._registry
        )
        running.set_function(running_seconds)

    def count_request(self, *, path: str, status: int) -> None:
        """Count one answered request."""
        self._requests.labels(path=path, status=str(status)).inc()

    def count_call(self, *, scorer: str, rows: int, tokens: int, phases: Mapping[str, float]) -> None:
        """Count one scoring call; *phases* are seconds by phase name."""
        self._rows.labels(scorer=scorer).inc(rows)
        self._tokens.inc(tokens)
        for phase, seconds in phases.items():
            self._seconds.labels(phase=phase).observe(seconds)

    def count_out_of_memory(self) -> None:
        """Count one call that ran out of memory."""
        self._out_of_memory.inc()

    def render(self) -> bytes:
        """Return everything in Prometheus's text format."""
        return generate_latest(self._registry)
