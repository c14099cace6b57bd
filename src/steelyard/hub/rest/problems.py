"""Errors as RFC 9457 problems: the one table from error to status. No problem repeats what was sent."""

from __future__ import annotations

import http
from typing import TYPE_CHECKING, Any

from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, ConfigDict, Field
from starlette.exceptions import HTTPException

from steelyard.hall.errors import SteelyardError
from steelyard.hub.errors import BrokenRule, Conflict, HubError, NotAuthorised, UnknownThing, VersionConflict
from steelyard.web.answers import JSONAnswer, NoAnswer
from steelyard.web.errors import ClientGone, MethodNotAllowed, NotFound, RequestRefused

if TYPE_CHECKING:
    from collections.abc import Mapping

    from starlette.requests import Request
    from starlette.responses import Response
    from starlette.types import Scope

# An error's status is that of its nearest class here.
STATUS_OF: Mapping[type[HubError], int] = {NotAuthorised: 403, UnknownThing: 404, BrokenRule: 422, Conflict: 409}
_MOST_BREACHES = 20


class Breach(BaseModel):
    """One rule that the request breaks."""

    where: str = Field(description="The place in the request, such as body.slug.")
    rule: str


class Problem(BaseModel):
    """An RFC 9457 problem."""

    model_config = ConfigDict(json_schema_extra={"examples": [{
        "type": "about:blank", "title": "Conflict", "status": 409, "code": "SLUG_TAKEN",
        "detail": "The slug is taken; choose another", "instance": "/api/v1/projects",
    }]})  # fmt: skip

    type: str = "about:blank"
    title: str
    status: int
    detail: str
    instance: str
    code: str = Field(description="A stable name to program against.")
    current_version: int | None = Field(None, description="With VERSION_CONFLICT: the thing's present version.")
    errors: list[Breach] | None = Field(None, description="With INVALID_REQUEST: each rule that is broken.")


def problems(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """Return the OpenAPI responses for *statuses*, to be declared by an endpoint."""
    return {
        status: {
            "description": http.HTTPStatus(status).phrase,
            "model": Problem,
            "content": {"application/problem+json": {}},
        }
        for status in statuses
    }


class ProblemAnswer(JSONAnswer):
    """A problem as a response."""

    media_type = "application/problem+json"


def answer_for(error: Exception, *, path: str) -> Response:
    """Return the problem for *error*, whatever it is; an unforeseen one says nothing of itself."""
    if isinstance(error, RequestValidationError):
        return _invalid(error, path=path)
    if isinstance(error, RequestRefused):
        return _problem(error, status=error.status, path=path, headers=error.headers)
    if isinstance(error, HubError):
        version = error.current_version if isinstance(error, VersionConflict) else None
        return _problem(error, status=status_of(error), path=path, current_version=version)
    return _problem(Unforeseen(), status=500, path=path)


class Unforeseen(SteelyardError):
    """Something failed that nobody foresaw; the hub's log has the reason under this answer's x-request-id."""

    code = "INTERNAL_ERROR"


def status_of(error: HubError) -> int:
    """Return the status of the nearest class in the table."""
    return next(STATUS_OF[kind] for kind in type(error).__mro__ if kind in STATUS_OF)


def _problem(
    error: SteelyardError, *, status: int, path: str, headers: Mapping[str, str] | None = None, **extra: Any
) -> Response:
    content = {
        "type": "about:blank",
        "title": http.HTTPStatus(status).phrase,
        "status": status,
        "detail": str(error),
        "instance": path,
        "code": error.code.upper(),
        **{name: value for name, value in extra.items() if value is not None},
    }
    return ProblemAnswer(content, status_code=status, headers=dict(headers or {}))


def _invalid(error: RequestValidationError, *, path: str) -> Response:
    breaches = [
        {"where": ".".join(str(part)[:64] for part in item["loc"]), "rule": item["msg"]}
        for item in error.errors()[:_MOST_BREACHES]
    ]
    detail = "; ".join(f"{breach['where']}: {breach['rule']}" for breach in breaches[:3])
    return _problem(BrokenRule(detail), status=422, path=path, errors=breaches)


async def answer_exception(request: Request, error: Exception) -> Response:
    """Answer an error that an endpoint raised; a departed client gets none."""
    return NoAnswer() if isinstance(error, ClientGone) else answer_for(error, path=request.url.path)


async def answer_http_exception(request: Request, error: Exception) -> Response:
    """Answer the router's own refusals as problems."""
    is_missing = isinstance(error, HTTPException) and error.status_code == 404
    answer = answer_for(NotFound() if is_missing else MethodNotAllowed(), path=request.url.path)
    if isinstance(error, HTTPException):
        answer.headers.update(error.headers or {})
    return answer


def answer_refusal(scope: Scope, error: RequestRefused) -> Response:
    """Answer what the gate refuses."""
    return answer_for(error, path=scope["path"])
