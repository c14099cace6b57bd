"""Builds the ASGI application of one decision server from its parts."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.exceptions import ExceptionMiddleware

from steelyard.decide.api.routes import DecideApi, answer_exception, answer_http_exception
from steelyard.decide.domain.plans import Rules
from steelyard.decide.metrics import Metrics
from steelyard.decide.model_thread import ModelThread
from steelyard.decide.service import ScoringService
from steelyard.decide.startup import warm_up
from steelyard.hall.errors import SteelyardError
from steelyard.web.admission import Admission
from steelyard.web.errors import ClientGone
from steelyard.web.gate import Gate

if TYPE_CHECKING:
    from collections.abc import Callable

    from starlette.requests import Request
    from starlette.responses import Response
    from starlette.routing import Route

    from steelyard.decide.domain.ports import Engine
    from steelyard.decide.settings import Settings

logger = logging.getLogger("steelyard.decide")


@dataclass(frozen=True)
class DecisionServer:
    """One server's ASGI application, and the parts that its process must end: the thread and the admission."""

    app: Gate
    thread: ModelThread
    admission: Admission


def build_server(settings: Settings, engine: Engine, *, on_poisoned: Callable[[], object]) -> DecisionServer:
    """Return the server for a started *engine*; *on_poisoned* is called when the engine no longer scores at all."""
    if settings.api_token is None:
        raise ValueError("a server needs an API token")
    admission = Admission(settings.max_queue)
    thread = ModelThread(engine, warm_up=warm_up, on_poisoned=on_poisoned)
    metrics = Metrics(queue_depth=lambda: admission.in_progress, running_seconds=lambda: thread.running_seconds or 0.0)
    rules = Rules(max_decisions=settings.max_decisions, temperatures=settings.calibration)
    service = ScoringService(thread, rules=rules, max_tokens=settings.max_tokens, metrics=metrics)
    api = DecideApi(settings=settings, service=service, thread=thread, admission=admission, metrics=metrics)
    routes = api.routes()
    app = Gate(
        _application(routes),
        token=settings.api_token,
        open_routes={("GET", "/health"), ("HEAD", "/health")},
        known_paths={route.path for route in routes},
        on_answer=lambda path, status: metrics.count_request(path=path, status=status),
    )
    return DecisionServer(app=app, thread=thread, admission=admission)


def _application(routes: list[Route]) -> Starlette:
    application = Starlette(
        routes=routes,
        exception_handlers={
            HTTPException: answer_http_exception,
            SteelyardError: answer_exception,
            ClientGone: answer_exception,
        },
        # Starlette answers what is left over and then raises it again, which closes the connection; this one does not.
        middleware=[Middleware(ExceptionMiddleware, handlers={Exception: _answer_unforeseen})],
    )
    application.router.redirect_slashes = False  # Paths are exact: a trailing slash is another path.
    return application


async def _answer_unforeseen(request: Request, error: Exception) -> Response:
    """Answer what nobody foresaw, such as a failure while the response is built; the log has the reason."""
    logger.error("Unforeseen failure", exc_info=error)
    return await answer_exception(request, error)
