"""The one table from error to HTTP status."""

from __future__ import annotations

from typing import TYPE_CHECKING

from steelyard.embed.domain.errors import (
    EmbeddingFailed,
    EmbedError,
    InputTooLong,
    InvalidRequest,
    OutOfMemory,
    UnknownModel,
)
from steelyard.web.errors import RequestRefused
from steelyard.web.openai import OpenAIErrorAnswer

if TYPE_CHECKING:
    from collections.abc import Mapping

STATUS_OF: Mapping[type[EmbedError], int] = {
    InvalidRequest: 422,
    InputTooLong: 422,
    UnknownModel: 404,
    OutOfMemory: 503,
    EmbeddingFailed: 500,
}


def answer_for(error: Exception) -> OpenAIErrorAnswer:
    """Return the answer for *error*; what the table does not know is a failed embedding."""
    if isinstance(error, RequestRefused):
        return OpenAIErrorAnswer(status=error.status, code=error.code, message=str(error), headers=error.headers)
    known = error if isinstance(error, EmbedError) else EmbeddingFailed()
    return OpenAIErrorAnswer(status=STATUS_OF[type(known)], code=known.code, message=str(known), param=known.param)
