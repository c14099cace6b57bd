"""Everything that the gateway refuses or that fails on the way, with OpenAI's kind of codes: lower case.

    GatewayError
    ├── CallerForbidden
    ├── InvalidCall
    ├── ModelNotFound
    ├── CatalogueUnavailable
    ├── LogUnavailable
    ├── Overlong              the input does not fit the model
    │   ├── InputTooLong
    │   ├── InputTruncated
    │   └── TruncationUnknown
    ├── UpstreamError         the embedding server did not do its part
    │   ├── UpstreamUnreachable
    │   ├── UpstreamTimeout
    │   ├── UpstreamOverloaded
    │   ├── UpstreamRefused
    │   ├── UpstreamFailed
    │   ├── UpstreamKeyMissing
    │   └── BadAnswer
    │       ├── WrongDimension
    │       └── NotFinite
    └── Unforeseen

A failed request's row has the code. No message quotes a text, a vector or an embedding server's own words, which may
quote the text. No class knows an HTTP status; `api.py` has the one table.
"""

from __future__ import annotations

from steelyard.hall.errors import SteelyardError


class GatewayError(SteelyardError):
    """The gateway refused this."""

    code = "gateway_error"


class CallerForbidden(GatewayError):
    """Only a service client with the capability rag.embedding@1 may use the embedding gateway."""

    code = "forbidden"


class InvalidCall(GatewayError):
    """The request breaks a rule of the embedding endpoint."""

    code = "invalid_request"

    def __init__(self, message: str, *, field: str | None = None) -> None:
        super().__init__(message)
        self.field = field


class ModelNotFound(GatewayError):
    """No active route has this name."""

    code = "model_not_found"


class CatalogueUnavailable(GatewayError):
    """The hub's database cannot be read; try again later."""

    code = "catalogue_unavailable"


class LogUnavailable(GatewayError):
    """The request log cannot be written, and no request is answered without its row; try again later."""

    code = "log_unavailable"


class Overlong(GatewayError):
    """An input does not fit the model."""


class InputTooLong(Overlong):
    """An input, or all together, is more than the embedding server takes; send shorter texts, or fewer at once."""

    code = "input_too_long"


class InputTruncated(Overlong):
    """The embedding server cut an input, which the deployment does not allow; send shorter texts, or split them."""

    code = "input_truncated"


class TruncationUnknown(Overlong):
    """An input may have been cut, which the deployment does not allow; send shorter texts, or one at a time."""

    code = "truncation_unknown"


class UpstreamError(GatewayError):
    """The embedding server did not do its part."""


class UpstreamUnreachable(UpstreamError):
    """The embedding server cannot be reached, or dropped the connection."""

    code = "upstream_unreachable"


class UpstreamTimeout(UpstreamError):
    """The embedding server did not answer within its runtime's time limit."""

    code = "upstream_timeout"


class UpstreamOverloaded(UpstreamError):
    """The embedding server has as much work as it takes; try again later."""

    code = "upstream_overloaded"

    def __init__(self, *, retry_after_s: int = 1) -> None:
        super().__init__()
        self.retry_after_s = retry_after_s


class UpstreamRefused(UpstreamError):
    """The embedding server refused the hub's request."""

    code = "upstream_refused"


class UpstreamFailed(UpstreamError):
    """The embedding server failed."""

    code = "upstream_failed"


class UpstreamKeyMissing(UpstreamError):
    """The hub has no key for the embedding server; its operator must set the runtime's key variable."""

    code = "upstream_key_missing"


class BadAnswer(UpstreamError):
    """The embedding server's answer is no list of embeddings."""

    code = "upstream_bad_answer"


class WrongDimension(BadAnswer):
    """The embedding server's vectors have another dimension than the deployment's embedding identity."""

    code = "wrong_dimension"


class NotFinite(BadAnswer):
    """The embedding server's vectors hold NaN or infinity."""

    code = "not_finite"


class Unforeseen(GatewayError):
    """Something failed that nobody foresaw; the hub's log has the reason under this request's id."""

    code = "internal_error"
