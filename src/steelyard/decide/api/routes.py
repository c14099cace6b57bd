"""The endpoints: each reads, asks the service and answers. Rules live in the domain, statuses in `errors`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from starlette.routing import Route

from steelyard.decide.api.openapi import openapi_document
from steelyard.decide.domain.plans import plan_decide, plan_shared
from steelyard.decide.domain.prompt import SEMIF_COMMIT
from steelyard.web.answers import JSONAnswer, MetricsAnswer
from steelyard.web.bodies import read_json
from steelyard.web.departed import until_gone
from steelyard.web.errors import NotReady

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from starlette.requests import Request
    from starlette.responses import Response

    from steelyard.decide.domain.plans import Plan
    from steelyard.decide.metrics import Metrics
    from steelyard.decide.model_thread import ModelThread
    from steelyard.decide.service import ScoringService
    from steelyard.decide.settings import Settings
    from steelyard.web.admission import Admission, Permit
    from steelyard.web.departed import Watch


class DecideApi:
    """The endpoints of one server."""

    def __init__(
        self,
        *,
        settings: Settings,
        service: ScoringService,
        thread: ModelThread,
        admission: Admission,
        metrics: Metrics,
    ) -> None:
        self._settings = settings
        self._service = service
        self._thread = thread
        self._admission = admission
        self._metrics = metrics

    def routes(self) -> list[Route]:
        """Return every route."""
        return [
            Route("/health", self.health, methods=["GET"]),
            Route("/decide", self.decide, methods=["POST"]),
            Route("/decide/shared", self.decide_shared, methods=["POST"]),
            Route("/metrics", self.metrics, methods=["GET"]),
            Route("/openapi.json", self.openapi, methods=["GET"]),
        ]

    async def health(self, request: Request) -> Response:
        """Tell what is served; with `?ready`, whether new work is welcome."""
        if "ready" in request.query_params and self._admission.is_draining:
            raise NotReady("The server is going down; send requests to another one")
        traits = self._thread.engine.traits
        return JSONAnswer(
            {
                "status": "ok",
                "semif_commit": SEMIF_COMMIT,
                "model": self._thread.engine.model,
                "vram_cap_gib": self._settings.vram_cap_gib,
                "max_tokens": self._settings.max_tokens,
                "max_decisions": self._settings.max_decisions,
                "workloads": sorted(self._settings.calibration),
                "engine": {"name": traits.name, "is_model": traits.is_model, "tolerance": traits.tolerance},
                "queue": {
                    "in_progress": self._admission.in_progress,
                    "limit": self._admission.limit,
                    "running_seconds": self._thread.running_seconds,
                },
            }
        )

    async def decide(self, request: Request) -> Response:
        """Score one row."""

        async def score(plan: Plan, permit: Permit, gone: Watch) -> object:
            return await self._service.decide(plan, permit=permit, gone=gone)

        return await self._scored(request, lambda body: plan_decide(body, rules=self._service.rules), score)

    async def decide_shared(self, request: Request) -> Response:
        """Score many rows over one state."""

        async def score(plan: Plan, permit: Permit, gone: Watch) -> object:
            results, timing = await self._service.decide_shared(plan, permit=permit, gone=gone)
            return {"results": results, "timing": timing}

        return await self._scored(request, lambda body: plan_shared(body, rules=self._service.rules), score)

    async def metrics(self, _request: Request) -> Response:
        """Return the counters."""
        return MetricsAnswer(self._metrics.render())

    async def openapi(self, _request: Request) -> Response:
        """Return the OpenAPI document."""
        return JSONAnswer(openapi_document())

    async def _scored(
        self,
        request: Request,
        plan_of: Callable[[object], Plan],
        score: Callable[[Plan, Permit, Watch], Awaitable[object]],
    ) -> Response:
        with self._admission.enter() as permit:
            body = await read_json(
                request.scope,
                request.receive,
                limit=self._settings.max_body_bytes,
                timeout_s=self._settings.body_timeout_s,
            )
            return JSONAnswer(await score(plan_of(body), permit, lambda: until_gone(request.receive)))
