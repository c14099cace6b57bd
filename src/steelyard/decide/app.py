"""Builds the ASGI application of one decision server from its parts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from steelyard.decide.api.errors import answer_for
from steelyard.decide.api.routes import DecideApi
from steelyard.decide.domain.plans import Rules
from steelyard.decide.metrics import Metrics
from steelyard.decide.model_thread import ModelThread
from steelyard.decide.service import ScoringService
from steelyard.decide.startup import warm_up
from steelyard.web.admission import Admission
from steelyard.web.application import token_application

if TYPE_CHECKING:
    from collections.abc import Callable

    from steelyard.decide.domain.ports import Engine
    from steelyard.decide.settings import Settings
    from steelyard.web.gate import Gate


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
    app = token_application(
        api.routes(),
        token=settings.api_token,
        answer_for=answer_for,
        on_answer=lambda path, status: metrics.count_request(path=path, status=status),
    )
    return DecisionServer(app=app, thread=thread, admission=admission)
