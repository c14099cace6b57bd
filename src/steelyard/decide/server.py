"""The decision server's process: it serves a started engine, and ends when that engine is poisoned."""

from __future__ import annotations

import logging
import os
import threading
from typing import TYPE_CHECKING

from steelyard.decide.app import build_server
from steelyard.web.answers import envelope
from steelyard.web.process import EXIT_FORCED, bind, serve_until_drained, url_of

if TYPE_CHECKING:
    from steelyard.decide.domain.ports import Engine
    from steelyard.decide.settings import Settings

logger = logging.getLogger("steelyard.decide")
EXIT_POISONED = 1


def serve(settings: Settings, engine: Engine) -> int:
    """Serve a started *engine* until a signal, and return the exit code; raises BadSetting where no port is free.

    The port binds here, after everything that could refuse the start.
    """
    listener = bind(settings.bind, variable="SEMIF_BIND")
    poisoned = threading.Event()
    server = build_server(settings, engine, on_poisoned=poisoned.set)
    logger.info("Serving %s on %s", settings.model, url_of(listener))
    is_drained = serve_until_drained(
        server.app, listener, admission=server.admission, answer_malformed=envelope, must_drain=poisoned.is_set
    )
    if not is_drained:
        os._exit(EXIT_FORCED)  # A second signal: the scoring thread cannot be stopped, and would be waited for.
    server.thread.close()
    return EXIT_POISONED if poisoned.is_set() else 0
