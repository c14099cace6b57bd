"""JSON answers, metrics, and the error envelope `{"error": {"code", "message"}}`."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Self

from starlette.responses import Response

if TYPE_CHECKING:
    from collections.abc import Mapping

    from starlette.types import Receive, Scope, Send

    from steelyard.web.errors import RequestRefused


_METRICS_TYPE = "text/plain; version=0.0.4; charset=utf-8"


class JSONAnswer(Response):
    """A JSON response in UTF-8; NaN and infinity raise ValueError, since JSON has neither."""

    media_type = "application/json"

    def render(self, content: object) -> bytes:
        """Return *content* as JSON."""
        return json.dumps(content, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode("utf-8")


class MetricsAnswer(Response):
    """A room's metrics in Prometheus's text format."""

    def __init__(self, rendered: bytes) -> None:
        super().__init__(rendered, headers={"Content-Type": _METRICS_TYPE})


class ErrorAnswer(JSONAnswer):
    """An error in the envelope."""

    def __init__(self, *, status: int, code: str, message: str, headers: Mapping[str, str]) -> None:
        super().__init__({"error": {"code": code, "message": message}}, status_code=status, headers=headers)

    @classmethod
    def of(cls, refusal: RequestRefused) -> Self:
        """Return the answer to *refusal*, which knows its own status."""
        return cls(status=refusal.status, code=refusal.code, message=str(refusal), headers=refusal.headers)


def envelope(code: str, message: str) -> tuple[bytes, str]:
    """Return an error in the envelope as ASCII bytes with their content type, for answers that no application gives."""
    return json.dumps({"error": {"code": code, "message": message}}).encode("ascii"), JSONAnswer.media_type


class NoAnswer(Response):
    """What a client that has hung up gets: nothing is sent."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send nothing."""
