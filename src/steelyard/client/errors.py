"""Everything that can go wrong between a client and a service.

    ClientError
    ├── BadAddress      no HTTP address
    ├── BadCredential   no text that a header could carry
    ├── Unreachable     nothing answered, or not in time: what was asked may still have been done
    ├── StrangeAnswer   something answered that is not the service
    └── Refused         the service said no, and why

No message holds the credential.
"""

from __future__ import annotations

from dataclasses import dataclass

from steelyard.hall.errors import SteelyardError


class ClientError(SteelyardError):
    """The service could not be asked."""

    code = "CLIENT_ERROR"


class BadAddress(ClientError):
    """The address must be http://host[:port] or https://…, without user, password, query or fragment."""

    code = "BAD_ADDRESS"


class BadCredential(ClientError):
    """The credential must be visible ASCII characters, as `hub init` or `credentials issue` showed it."""

    code = "BAD_CREDENTIAL"


class Unreachable(ClientError):
    """Nothing answered."""

    code = "UNREACHABLE"


class StrangeAnswer(ClientError):
    """Something answered that is not the service."""

    code = "STRANGE_ANSWER"


@dataclass(frozen=True)
class Fault:
    """One rule that a request broke: *where* is its place in the request, such as body.cases.3.query."""

    where: str
    rule: str


class Refused(ClientError):
    """The service said no: *code* is its stable name, *status* HTTP's; VERSION_CONFLICT tells the present version."""

    code = "REFUSED"

    def __init__(
        self,
        message: str,
        *,
        status: int,
        code: str,
        current_version: int | None = None,
        retry_after_s: int | None = None,
        faults: tuple[Fault, ...] = (),
    ) -> None:
        super().__init__(message)
        self.status = status
        self.code = code  # type: ignore[misc]  # The service has more codes than this package has classes.
        self.current_version = current_version
        self.retry_after_s = retry_after_s
        self.faults = faults
