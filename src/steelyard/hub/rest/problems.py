"""Errors as RFC 9457 problems: the one table from error to status. No problem repeats what was sent."""

from __future__ import annotations

import json
import logging
import uuid
from typing import TYPE_CHECKING, Any, Literal

from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, ConfigDict, Field

from steelyard.hall.errors import SteelyardError
from steelyard.hub.db.errors import (
    StoreBusy,
    StoreCorrupt,
    StoreError,
    StoreFull,
    StoreReadOnly,
    StoreUnavailable,
)
from steelyard.hub.errors import BrokenRule, Conflict, HubError, NotAuthorised, ResultRefused, UnknownThing
from steelyard.hub.rest.breaches import MOST_BREACHES, breach
from steelyard.web.answers import JSONAnswer
from steelyard.web.errors import RequestRefused

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

logger = logging.getLogger("steelyard.hub")
MEDIA_TYPE = "application/problem+json"

# As RFC 9110 calls them: Python's own table has other words in other versions.
TITLE_OF: Mapping[int, str] = {
    400: "Bad Request",
    401: "Unauthorized",
    403: "Forbidden",
    404: "Not Found",
    405: "Method Not Allowed",
    408: "Request Timeout",
    409: "Conflict",
    413: "Content Too Large",
    415: "Unsupported Media Type",
    422: "Unprocessable Content",
    429: "Too Many Requests",
    500: "Internal Server Error",
    503: "Service Unavailable",
}
# An error's status is that of its nearest class here. Of a store's error what is not here is a fault of ours.
STATUS_OF: Mapping[type[SteelyardError], int] = {
    NotAuthorised: 403,
    UnknownThing: 404,
    Conflict: 409,
    BrokenRule: 422,
    StoreCorrupt: 500,
    StoreUnavailable: 503,
    StoreBusy: 503,
    StoreFull: 503,
    StoreReadOnly: 503,
}
# Seconds after which another try may go better: a lock is soon free, the rest takes an operator.
RETRY_AFTER_S: Mapping[type[StoreError], int] = {StoreBusy: 1, StoreUnavailable: 5, StoreFull: 60, StoreReadOnly: 60}
_RETRYABLE = frozenset({408, 429, 503})  # It is about the moment, and not about the request.
_EXAMPLE_ID = "urn:uuid:0d9cd3f5-4d2f-4a60-8a3b-0a4f8d2b6f11"


class Breach(BaseModel):
    """One rule that the request breaks."""

    where: str = Field(description="The place in the request, such as body.slug; `*` is a name that no request has.")
    rule: str


class Problem(BaseModel):
    """An RFC 9457 problem."""

    model_config = ConfigDict(json_schema_extra={"examples": [{
        "type": "about:blank", "title": "Conflict", "status": 409, "code": "SLUG_TAKEN",
        "detail": "The slug is taken; choose another", "instance": _EXAMPLE_ID,
    }]})  # fmt: skip

    type: str = "about:blank"
    title: str
    status: int
    detail: str
    instance: str = Field(description="The request: the same id as in the header x-request-id, as a URN.")
    code: str = Field(description="A stable name to program against.")
    retryable: Literal[True] | None = Field(
        None,
        description="With a 408, 429 or 503: the same request may succeed later, after Retry-After if it is there.",
    )
    current_version: int | None = Field(None, description="With a conflict about a thing's state: its version.")
    errors: list[Breach] | None = Field(None, description="With a 422: each rule that is broken, at most 20.")


class ProblemAnswer(JSONAnswer):
    """A problem as a response."""

    media_type = MEDIA_TYPE


class Unforeseen(SteelyardError):
    """Something failed that nobody foresaw; the hub's log has the reason under this answer's x-request-id."""

    code = "INTERNAL_ERROR"


def problem_for(error: Exception, *, request_id: str, names: Collection[str] = ()) -> ProblemAnswer:
    """Return the problem for *error*, whatever it is; an unforeseen one says nothing of itself."""
    if isinstance(error, RequestValidationError):
        return _invalid(error, request_id, names)
    if isinstance(error, RequestRefused):
        return _problem(error, error.status, request_id, headers=error.headers)
    status = status_of(error)
    if isinstance(error, StoreError) and status is not None:
        _log_failed_store(error)
        return _problem(error, status, request_id, headers=_retry_after(error))
    if isinstance(error, HubError) and status is not None:
        version = error.current_version if isinstance(error, Conflict) else None
        return _problem(error, status, request_id, current_version=version, errors=_breaches(error))
    return _problem(Unforeseen(), 500, request_id)


def status_of(error: Exception) -> int | None:
    """Return the status of the nearest class in the table; None for what nobody foresaw."""
    return next((STATUS_OF[kind] for kind in type(error).__mro__ if kind in STATUS_OF), None)


def malformed(code: str, message: str) -> tuple[bytes, str]:
    """Return the answer to what is no HTTP, with its content type; there is no request yet, so its id is a new one."""
    problem = {
        "type": "about:blank",
        "title": TITLE_OF[400],
        "status": 400,
        "detail": message,
        "instance": uuid.uuid4().urn,
        "code": code.upper(),
    }
    return json.dumps(problem).encode("ascii"), MEDIA_TYPE


def _problem(
    error: SteelyardError, status: int, request_id: str, *, headers: Mapping[str, str] | None = None, **extra: Any
) -> ProblemAnswer:
    content = {
        "type": "about:blank",
        "title": TITLE_OF[status],
        "status": status,
        "detail": str(error),
        "instance": uuid.UUID(request_id).urn,
        "code": error.code.upper(),
        **({"retryable": True} if status in _RETRYABLE else {}),
        **{name: value for name, value in extra.items() if value is not None},
    }
    return ProblemAnswer(content, status_code=status, headers=dict(headers or {}))


def _invalid(error: RequestValidationError, request_id: str, names: Collection[str]) -> ProblemAnswer:
    breaches = [breach(item, names=names) for item in error.errors()[:MOST_BREACHES]]
    detail = "; ".join(f"{found['where']} {found['rule']}" for found in breaches[:3])
    return _problem(BrokenRule(detail), 422, request_id, errors=breaches)


def _breaches(error: HubError) -> list[dict[str, str]] | None:
    if not isinstance(error, ResultRefused) or not error.places:
        return None
    return [{"where": f"body.{place}", "rule": error.rule} for place in error.places[:MOST_BREACHES]]


def _log_failed_store(error: StoreError) -> None:
    """Keep the first line of the driver's words: later ones may quote a row."""
    reason = str(error.__cause__ or "").partition("\n")[0]
    logger.warning("The store failed: %s %s", error.code, reason)


def _retry_after(error: StoreError) -> dict[str, str]:
    seconds = next((RETRY_AFTER_S[kind] for kind in type(error).__mro__ if kind in RETRY_AFTER_S), None)
    return {} if seconds is None else {"Retry-After": str(seconds)}
