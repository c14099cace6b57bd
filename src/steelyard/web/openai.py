"""Errors as OpenAI's clients read them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from steelyard.web.answers import JSONAnswer

if TYPE_CHECKING:
    from collections.abc import Mapping

# OpenAI's kinds of errors; every other refusal is of the request itself.
_TYPES = {401: "authentication_error", 403: "permission_error", 429: "rate_limit_error"}
_REQUEST_TYPE, _SERVER_TYPE = "invalid_request_error", "server_error"
ERROR_TYPES = (_REQUEST_TYPE, _SERVER_TYPE, *_TYPES.values())


class OpenAIErrorAnswer(JSONAnswer):
    """An error in OpenAI's shape; *param* names the field at fault."""

    def __init__(
        self,
        *,
        status: int,
        code: str,
        message: str,
        param: str | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        body = _body(status, code=code, message=message, param=param)
        super().__init__(body, status_code=status, headers=headers)


def openai_envelope(code: str, message: str) -> tuple[bytes, str]:
    """Return the body, and its content type, of the answer to what is no HTTP."""
    return json.dumps(_body(400, code=code, message=message, param=None)).encode("ascii"), JSONAnswer.media_type


def _body(status: int, *, code: str, message: str, param: str | None) -> dict[str, object]:
    kind = _SERVER_TYPE if status >= 500 else _TYPES.get(status, _REQUEST_TYPE)
    return {"error": {"message": message, "type": kind, "param": param, "code": code}}
