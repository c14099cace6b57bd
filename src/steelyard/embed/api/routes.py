"""The endpoints: each reads, asks the service and answers. Rules live in the domain, statuses in `errors`."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

from starlette.responses import Response
from starlette.routing import Route

from steelyard.embed.api.openapi import openapi_document
from steelyard.embed.domain.requests import request_from
from steelyard.web.answers import JSONAnswer, MetricsAnswer
from steelyard.web.bodies import read_json
from steelyard.web.departed import until_gone
from steelyard.web.errors import NotReady

if TYPE_CHECKING:
    from starlette.requests import Request

    from steelyard.embed.metrics import Metrics
    from steelyard.embed.service import EmbeddingService
    from steelyard.embed.settings import Settings
    from steelyard.embed.worker import Worker
    from steelyard.web.admission import Admission


class EmbedApi:
    """The endpoints of one server."""

    def __init__(
        self,
        *,
        settings: Settings,
        service: EmbeddingService,
        worker: Worker,
        admission: Admission,
        metrics: Metrics,
    ) -> None:
        self._settings = settings
        self._service = service
        self._worker = worker
        self._admission = admission
        self._metrics = metrics

    def routes(self) -> list[Route]:
        """Return every route."""
        return [
            Route("/health", self.health, methods=["GET"]),
            Route("/v1/embeddings", self.embeddings, methods=["POST"]),
            Route("/v1/models", self.models, methods=["GET"]),
            Route("/metrics", self.metrics, methods=["GET"]),
            Route("/openapi.json", self.openapi, methods=["GET"]),
        ]

    async def health(self, request: Request) -> Response:
        """Tell what is served; with `?ready`, whether new work is welcome."""
        if "ready" in request.query_params and self._admission.is_draining:
            raise NotReady("The server is going down; send requests to another one")
        traits = self._worker.runtime.traits
        return JSONAnswer(
            {
                "status": "ok",
                "identity": asdict(self._worker.runtime.identity),
                "runtime": {**asdict(traits), **self._worker.runtime.facts},
                "limits": {
                    "max_inputs": self._settings.max_inputs,
                    "max_batch_tokens": self._settings.max_batch_tokens,
                    "max_batch_rows": self._settings.max_batch_rows,
                    "max_body_bytes": self._settings.max_body_bytes,
                },
                "queue": {
                    "in_progress": self._admission.in_progress,
                    "limit": self._admission.limit,
                    "waiting_rows": self._worker.waiting_rows,
                    "running_seconds": self._worker.running_seconds,
                },
            }
        )

    async def embeddings(self, request: Request) -> Response:
        """Embed texts."""
        with self._admission.enter():
            body = await read_json(
                request.scope,
                request.receive,
                limit=self._settings.max_body_bytes,
                timeout_s=self._settings.body_timeout_s,
            )
            wanted = request_from(body, rules=self._service.rules)
            answer = await self._service.embed(wanted, gone=lambda: until_gone(request.receive))
            return Response(answer, media_type=JSONAnswer.media_type)

    async def models(self, _request: Request) -> Response:
        """List the one model."""
        model = self._worker.runtime.identity.model
        entry = {"id": model, "object": "model", "created": 0, "owned_by": "steelyard"}
        return JSONAnswer({"object": "list", "data": [entry]})

    async def metrics(self, _request: Request) -> Response:
        """Return the counters."""
        return MetricsAnswer(self._metrics.render())

    async def openapi(self, _request: Request) -> Response:
        """Return the OpenAPI document."""
        return JSONAnswer(openapi_document())
