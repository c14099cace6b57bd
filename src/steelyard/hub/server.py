"""The hub's process: it opens the database, serves, and drains."""

from __future__ import annotations

import logging
import os
from typing import TYPE_CHECKING

from steelyard.hub.app import build_hub
from steelyard.hub.db.serving import serving
from steelyard.hub.rest.problems import malformed
from steelyard.web.process import EXIT_FORCED, bind, serve_until_drained, url_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from steelyard.hub.db.database import Database
    from steelyard.hub.settings import Settings

logger = logging.getLogger("steelyard.hub")


def serve(settings: Settings, database: Database, *, environ: Mapping[str, str]) -> int:
    """Serve until a signal, and return the exit code; raises BadSetting where no port is free."""
    listener = bind(settings.bind, variable="STEELYARD_HUB_BIND")
    hub = build_hub(settings, database, environ=environ)
    logger.info("Serving the hub on %s", url_of(listener))
    with serving(database):
        is_drained = serve_until_drained(
            hub.app,
            listener,
            admission=hub.admission,
            answer_malformed=malformed,
            close=hub.gateway.disconnect,
        )
    if not is_drained:
        os._exit(EXIT_FORCED)
    hub.gateway.close()
    database.close()
    return 0
