"""The one table from error to HTTP status."""

from __future__ import annotations

from typing import TYPE_CHECKING

from steelyard.decide.domain.errors import DecideError, InvalidRequest, OutOfMemory, ScoringFailed
from steelyard.web.answers import ErrorAnswer
from steelyard.web.errors import RequestRefused

if TYPE_CHECKING:
    from collections.abc import Mapping

STATUS_OF: Mapping[type[DecideError], int] = {
    InvalidRequest: 422,
    OutOfMemory: 503,
    ScoringFailed: 500,
}


def answer_for(error: Exception) -> ErrorAnswer:
    """Return the answer for *error*; what the table does not know is a failed scoring."""
    if isinstance(error, RequestRefused):
        return ErrorAnswer.of(error)
    known = error if isinstance(error, DecideError) else ScoringFailed()
    return ErrorAnswer(status=STATUS_OF[type(known)], code=known.code, message=str(known), headers={})
