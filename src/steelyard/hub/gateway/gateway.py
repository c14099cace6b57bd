"""Builds one gateway from its parts, and ends it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from steelyard.hub.gateway.api import GatewayApi
from steelyard.hub.gateway.log import RequestLog
from steelyard.hub.gateway.service import GatewayService
from steelyard.hub.gateway.upstream import Upstream

if TYPE_CHECKING:
    from collections.abc import Mapping

    from starlette.routing import Route

    from steelyard.hub.db.database import Database
    from steelyard.hub.settings import Settings
    from steelyard.web.admission import Admission


class Gateway:
    """One process's gateway over *database*; *environ* has the runtimes' keys.

    Whoever drains *admission* has waited for every call under way: a place is held until a call's row has its end.
    """

    def __init__(
        self, settings: Settings, database: Database, *, admission: Admission, environ: Mapping[str, str]
    ) -> None:
        self._log = RequestLog(database, is_grouping=settings.group_commit)
        self._upstream = Upstream(environ=environ)
        self._service = GatewayService(database, log=self._log, upstream=self._upstream)
        self._api = GatewayApi(self._service, admission=admission, settings=settings)

    @property
    def is_healthy(self) -> bool:
        """Whether requests can be logged, and so answered."""
        return self._log.is_healthy

    def routes(self) -> list[Route]:
        """Return the endpoints."""
        return self._api.routes()

    async def disconnect(self) -> None:
        """Close the connections to the runtimes; their event loop must still run."""
        await self._upstream.close()

    def close(self) -> None:
        """Commit what the log holds, and end its thread; call it once nothing is under way."""
        self._log.close()
        self._service.close()
