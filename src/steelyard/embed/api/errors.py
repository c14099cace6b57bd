"""The one table from error to HTTP status, and errors in OpenAI's shape."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from steelyard.embed.domain.errors import (
    EmbeddingFailed,
    EmbedError,
    InputTooLong,
    InvalidRequest,
    OutOfMemory,
    UnknownModel,
)
from steelyard.web.answers import JSONAnswer
from steelyard.web.errors import RequestRefused

if TYPE_CHECKING:
    from collections.abc import Mapping

STATUS_OF: Mapping[type[EmbedError], int] = {
    InvalidRequest: 422,
    InputTooLong: 422,
    UnknownModel: 404,
    OutOfMemory: 503,
    EmbeddingFailed: 500,
}
# OpenAI's kinds of errors; every other refusal is of the request itself.
_TYPES = {401: "authentication_error", 404: "not_found_error", 429: "rate_limit_error"}
_REQUEST_TYPE, _SERVER_TYPE = "invalid_request_error", "server_error"
ERROR_TYPES = (_REQUEST_TYPE, _SERVER_TYPE, *_TYPES.values())


def answer_for(error: Exception) -> JSONAnswer:
    """Return the answer for *error*; what the table does not know is a failed embedding."""
    if isinstance(error, RequestRefused):
        body = error_body(error.status, code=error.code, message=str(error))
        return JSONAnswer(body, status_code=error.status, headers=error.headers)
    known = error if isinstance(error, EmbedError) else EmbeddingFailed()
    status = STATUS_OF[type(known)]
    return JSONAnswer(error_body(status, code=known.code, message=str(known), param=known.param), status_code=status)


def error_body(status: int, *, code: str, message: str, param: str | None = None) -> dict[str, object]:
    """Return an error as OpenAI's clients read it."""
    kind = _SERVER_TYPE if status >= 500 else _TYPES.get(status, _REQUEST_TYPE)
    return {"error": {"message": message, "type": kind, "param": param, "code": code}}


def malformed(code: str, message: str) -> tuple[bytes, str]:
    """Return the body, and its content type, of the answer to what is no HTTP."""
    return json.dumps(error_body(400, code=code, message=message)).encode("ascii"), JSONAnswer.media_type
