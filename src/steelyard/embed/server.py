"""The embedding server's process: it serves a started runtime, and ends when that runtime is poisoned."""

from __future__ import annotations

import logging
import os
import threading
from typing import TYPE_CHECKING

from steelyard.embed.app import build_server
from steelyard.embed.settings import PREFIX
from steelyard.web.openai import openai_envelope
from steelyard.web.process import EXIT_FORCED, bind, serve_until_drained, url_of

if TYPE_CHECKING:
    from steelyard.embed.domain.ports import Runtime
    from steelyard.embed.settings import Settings

logger = logging.getLogger("steelyard.embed")
EXIT_POISONED = 1


def serve(settings: Settings, runtime: Runtime) -> int:
    """Serve a started *runtime* until a signal, and return the exit code; raises BadSetting where no port is free.

    The port binds here, after everything that could refuse the start.
    """
    listener = bind(settings.bind, variable=f"{PREFIX}BIND")
    poisoned = threading.Event()
    server = build_server(settings, runtime, on_poisoned=poisoned.set)
    logger.info("Serving %s on %s", runtime.identity.model, url_of(listener))
    is_drained = serve_until_drained(
        server.app, listener, admission=server.admission, answer_malformed=openai_envelope, must_drain=poisoned.is_set
    )
    if not is_drained:
        os._exit(EXIT_FORCED)  # A second signal: a running call cannot be stopped, and would be waited for.
    server.close()
    return EXIT_POISONED if poisoned.is_set() else 0
