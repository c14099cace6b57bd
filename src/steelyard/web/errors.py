"""Refusals that any of our HTTP services may give, and how an error is answered.

    RequestRefused
    ├── Unauthorized          401
    ├── NotFound              404
    ├── MethodNotAllowed      405
    ├── RequestTimeout        408
    ├── RequestTooLarge       413
    ├── UnsupportedEncoding   415
    ├── MalformedBody         422
    ├── Busy                  429
    └── NotReady              503

Each knows its own status: these are errors of HTTP itself, not of a domain.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, ClassVar

from steelyard.hall.errors import SteelyardError

if TYPE_CHECKING:
    from collections.abc import Mapping


class RequestRefused(SteelyardError):
    """The request was refused."""

    status: ClassVar[int] = 400
    headers: Mapping[str, str] = MappingProxyType({})


class Unauthorized(RequestRefused):
    """Send the server's token as `Authorization: Bearer <token>`."""

    code = "unauthorized"
    status = 401
    headers: Mapping[str, str] = MappingProxyType({"WWW-Authenticate": "Bearer"})


class NotFound(RequestRefused):
    """There is nothing at this path; GET /openapi.json lists what there is."""

    code = "not_found"
    status = 404


class MethodNotAllowed(RequestRefused):
    """This path does not take this method; the Allow header lists those that it takes."""

    code = "method_not_allowed"
    status = 405


class RequestTimeout(RequestRefused):
    """The body did not arrive in time; send it without pauses."""

    code = "request_timeout"
    status = 408


class RequestTooLarge(RequestRefused):
    """The body is larger than this server takes."""

    code = "request_too_large"
    status = 413


class UnsupportedEncoding(RequestRefused):
    """The body's Content-Encoding is not supported; send gzip, zstd or none."""

    code = "unsupported_encoding"
    status = 415


class MalformedBody(RequestRefused):
    """The body cannot be read."""

    code = "invalid_request"
    status = 422


class Busy(RequestRefused):
    """The server has as much work as it takes; try again later."""

    code = "busy"
    status = 429
    headers: Mapping[str, str] = MappingProxyType({"Retry-After": "1"})


class NotReady(RequestRefused):
    """The server is starting or going down."""

    code = "not_ready"
    status = 503


class ClientGone(Exception):  # It is an event, not an error: nobody is left to be told.
    """The client hung up before its answer was ready."""
