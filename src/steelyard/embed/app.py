"""Builds the ASGI application of one embedding server from its parts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from starlette.exceptions import HTTPException

from steelyard.embed.api.errors import answer_for
from steelyard.embed.api.routes import EmbedApi, answer_exception, answer_http_exception
from steelyard.embed.domain.batches import BatchLimits
from steelyard.embed.domain.requests import Rules
from steelyard.embed.metrics import Metrics
from steelyard.embed.service import EmbeddingService
from steelyard.embed.startup import warm_up
from steelyard.embed.worker import Worker
from steelyard.hall.errors import SteelyardError
from steelyard.web.admission import Admission
from steelyard.web.application import build_application
from steelyard.web.auth import token_guard
from steelyard.web.errors import ClientGone
from steelyard.web.gate import Gate, label_of_paths

if TYPE_CHECKING:
    from collections.abc import Callable

    from steelyard.embed.domain.ports import Runtime
    from steelyard.embed.settings import Settings


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
    routes = api.routes()
    application = build_application(
        routes,
        handlers={
            HTTPException: answer_http_exception,
            SteelyardError: answer_exception,
            ClientGone: answer_exception,
        },
        answer_unforeseen=answer_exception,
    )
    app = Gate(
        application,
        guard=token_guard(token=settings.api_token, open_routes={("GET", "/health"), ("HEAD", "/health")}),
        answer=lambda refusal, _scope: answer_for(refusal),
        label=label_of_paths({route.path for route in routes}),
        on_answer=lambda path, status: metrics.count_request(path=path, status=status),
    )
    return EmbeddingServer(app=app, admission=admission, service=service, worker=worker)
