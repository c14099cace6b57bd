"""Builds one gateway from its parts, and ends it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from steelyard.hub.gateway.api import GatewayApi, GatewayLimits
from steelyard.hub.gateway.log import RequestLog
from steelyard.hub.gateway.service import GatewayService
from steelyard.hub.gateway.upstream import Upstream
from steelyard.web.admission import Admission

if TYPE_CHECKING:
    from collections.abc import Mapping

    from starlette.routing import Route

    from steelyard.hub.db.database import Database


class Gateway:
    """One gateway over *database*; *environ* has the runtimes' keys."""

    def __init__(
        self,
        database: Database,
        *,
        environ: Mapping[str, str],
        limits: GatewayLimits | None = None,
        is_grouping: bool = True,
    ) -> None:
        limits = limits or GatewayLimits()
        self.admission = Admission(limits.max_in_progress)
        self.log = RequestLog(database, is_grouping=is_grouping)
        self._service = GatewayService(database, log=self.log, upstream=Upstream(environ=environ))
        self._api = GatewayApi(self._service, admission=self.admission, limits=limits)

    @property
    def is_healthy(self) -> bool:
        """Whether requests can be logged, and so answered."""
        return self.log.is_healthy

    def routes(self) -> list[Route]:
        """Return the endpoints."""
        return self._api.routes()

    async def close(self) -> None:
        """Take no new requests, wait for those under way, and commit what the log holds."""
        self.admission.is_draining = True
        await self._service.close()
