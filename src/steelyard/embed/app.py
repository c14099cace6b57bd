"""Builds the ASGI application of one embedding server from its parts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from steelyard.embed.api.errors import answer_for
from steelyard.embed.api.routes import EmbedApi
from steelyard.embed.domain.batches import BatchLimits
from steelyard.embed.domain.requests import Rules
from steelyard.embed.metrics import Metrics
from steelyard.embed.service import EmbeddingService
from steelyard.embed.startup import warm_up
from steelyard.embed.worker import Worker
from steelyard.web.admission import Admission
from steelyard.web.application import token_application

if TYPE_CHECKING:
    from collections.abc import Callable

    from steelyard.embed.domain.ports import Runtime
    from steelyard.embed.settings import Settings
    from steelyard.web.gate import Gate


@dataclass(frozen=True)
class EmbeddingServer:
    """One server's ASGI application, its admission, and the parts that own threads."""

    app: Gate
    admission: Admission
    service: EmbeddingService
    worker: Worker

    def close(self) -> None:
        """End the threads, after what runs on them, and unload the model."""
        self.service.close()
        self.worker.close()


def build_server(settings: Settings, runtime: Runtime, *, on_poisoned: Callable[[], object]) -> EmbeddingServer:
    """Return the server for a started *runtime*; *on_poisoned* is called when it no longer embeds at all."""
    admission = Admission(settings.max_queue)
    metrics = Metrics(
        queue_depth=lambda: admission.in_progress,
        waiting_rows=lambda: worker.waiting_rows,
        running_seconds=lambda: worker.running_seconds or 0.0,
    )
    worker = Worker(
        runtime,
        limits=BatchLimits(max_tokens=settings.max_batch_tokens, max_rows=settings.max_batch_rows),
        warm_up=warm_up,
        on_poisoned=on_poisoned,
        on_batch=metrics.count_batch,
    )
    rules = Rules(identity=runtime.identity, max_inputs=settings.max_inputs)
    service = EmbeddingService(worker, rules=rules, metrics=metrics)
    api = EmbedApi(settings=settings, service=service, worker=worker, admission=admission, metrics=metrics)
    app = token_application(
        api.routes(),
        token=settings.api_token,
        answer_for=answer_for,
        on_answer=lambda path, status: metrics.count_request(path=path, status=status),
    )
    return EmbeddingServer(app=app, admission=admission, service=service, worker=worker)
