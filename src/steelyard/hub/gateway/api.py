"""The gateway's two endpoints in OpenAI's shape, and the one table from error to HTTP status."""

from __future__ import annotations

import asyncio
import json
import logging
from typing import TYPE_CHECKING

from starlette.responses import Response
from starlette.routing import Route

from steelyard.hub.db.errors import StoreError
from steelyard.hub.gateway.domain.answers import as_base64
from steelyard.hub.gateway.domain.calls import read_call
from steelyard.hub.gateway.domain.errors import (
    BadAnswer,
    CallerForbidden,
    CatalogueUnavailable,
    GatewayError,
    InvalidCall,
    LogUnavailable,
    ModelNotFound,
    NotFinite,
    Overlong,
    Unforeseen,
    UpstreamError,
    UpstreamOverloaded,
    UpstreamTimeout,
    WrongDimension,
)
from steelyard.hub.gateway.domain.targets import require_client
from steelyard.web.answers import JSONAnswer, NoAnswer
from steelyard.web.bodies import read_json
from steelyard.web.errors import ClientGone, RequestRefused
from steelyard.web.openai import OpenAIErrorAnswer

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from starlette.requests import Request

    from steelyard.hub.gateway.domain.answers import Answer
    from steelyard.hub.gateway.domain.calls import Call
    from steelyard.hub.gateway.service import GatewayService
    from steelyard.hub.settings import Settings
    from steelyard.web.admission import Admission

logger = logging.getLogger("steelyard.hub")
PREFIX = "/v1"

# An error has the status of its nearest class here.
STATUS_OF: Mapping[type[GatewayError], int] = {
    CallerForbidden: 403,
    InvalidCall: 422,
    ModelNotFound: 404,
    CatalogueUnavailable: 503,
    LogUnavailable: 503,
    Overlong: 422,
    UpstreamError: 502,
    UpstreamTimeout: 504,
    UpstreamOverloaded: 503,
    Unforeseen: 500,
}
_VECTORS_AT_ONCE = 16
# What would only fail again: OpenAI's clients repeat every 5xx unless told not to.
_POINTLESS_TO_REPEAT = (BadAnswer, WrongDimension, NotFinite)


class GatewayApi:
    """The endpoints of one gateway. Each asks the gate's `principal` and `request_id` from the request's state."""

    def __init__(self, service: GatewayService, *, admission: Admission, settings: Settings) -> None:
        self._service = service
        self._admission = admission
        self._settings = settings

    def routes(self) -> list[Route]:
        """Return the endpoints by path and method."""
        return [
            Route(f"{PREFIX}/embeddings", _answering(self.embed), methods=["POST"]),
            Route(f"{PREFIX}/models", _answering(self.models), methods=["GET"]),
        ]

    async def embed(self, request: Request) -> Response:
        """Embed texts through one of the client's routes."""
        client = require_client(request.state.principal)
        with self._admission.enter() as permit:
            body = await read_json(
                request.scope,
                request.receive,
                limit=self._settings.max_body_bytes,
                timeout_s=self._settings.body_timeout_s,
            )
            call = read_call(body)
            answer = await self._service.embed(call, client=client, request_id=request.state.request_id, permit=permit)
            return Response(await _embeddings(call, answer), media_type=JSONAnswer.media_type)

    async def models(self, request: Request) -> Response:
        """List the client's routes that lead to an active deployment."""
        client = require_client(request.state.principal)
        routes = await self._service.list_routes(client)
        models = [
            {"id": r.slug, "object": "model", "created": int(r.created_at.timestamp()), "owned_by": r.project}
            for r in routes
        ]
        return JSONAnswer({"object": "list", "data": models})


def answer_for(error: Exception) -> Response:
    """Return the answer for *error* in OpenAI's shape; what the table does not know is unforeseen."""
    if isinstance(error, RequestRefused):
        return OpenAIErrorAnswer(status=error.status, code=error.code, message=str(error), headers=error.headers)
    if isinstance(error, StoreError):  # The guard could not ask who calls.
        error = CatalogueUnavailable()
    known = error if isinstance(error, GatewayError) else Unforeseen()
    status = next(STATUS_OF[kind] for kind in type(known).__mro__ if kind in STATUS_OF)
    field = known.field if isinstance(known, InvalidCall) else "model" if isinstance(known, ModelNotFound) else None
    headers = _headers(known, status)
    return OpenAIErrorAnswer(status=status, code=known.code, message=str(known), param=field, headers=headers)


def _answering(endpoint: Callable[[Request], Awaitable[Response]]) -> Callable[[Request], Awaitable[Response]]:
    """Return *endpoint* with its errors answered; a departed client gets no answer."""

    async def answer(request: Request) -> Response:
        try:
            return await endpoint(request)
        except ClientGone:
            return NoAnswer()
        except (RequestRefused, GatewayError) as error:
            return answer_for(error)
        except Exception as error:
            logger.exception("Unforeseen failure of %s", request.state.request_id)
            return answer_for(error)

    return answer


async def _embeddings(call: Call, answer: Answer) -> bytes:
    """Return OpenAI's answer, put together vector by vector: all at once could hold up everybody for seconds."""
    items = []
    for index, vector in enumerate(answer.vectors):
        text = f'"{as_base64(vector)}"' if call.encoding_format == "base64" else json.dumps(vector.tolist())
        items.append(f'{{"object":"embedding","index":{index},"embedding":{text}}}')
        if index % _VECTORS_AT_ONCE == _VECTORS_AT_ONCE - 1:
            await asyncio.sleep(0)
    tokens = answer.tokens or 0  # OpenAI's clients need a number.
    usage = json.dumps({"prompt_tokens": tokens, "total_tokens": tokens})
    data, model = ",".join(items), json.dumps(call.model)
    return f'{{"object":"list","data":[{data}],"model":{model},"usage":{usage}}}'.encode("ascii")


def _headers(error: GatewayError, status: int) -> dict[str, str]:
    if isinstance(error, UpstreamOverloaded):
        return {"Retry-After": str(error.retry_after_s)}
    if isinstance(error, _POINTLESS_TO_REPEAT):
        return {"x-should-retry": "false"}
    return {"Retry-After": "1"} if status == 503 else {}
