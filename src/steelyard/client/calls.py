"""What a client asks and how it reads the answer, without any network: the part that every kind of client shares."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlsplit

from steelyard.client.errors import BadAddress, BadCredential, Fault, Refused, StrangeAnswer
from steelyard.hall.texts import shorten

if TYPE_CHECKING:
    from collections.abc import Mapping

Thing = dict[str, Any]
PREFIX = "/api/v1"


@dataclass(frozen=True)
class Call:
    """One request; *path* follows the service's address."""

    method: str
    path: str
    query: Mapping[str, Any] = field(default_factory=dict)
    body: Mapping[str, Any] | None = None


@dataclass(frozen=True)
class Answer:
    """What the service answered: *is_new* tells a thing just made from one that was there."""

    status: int
    value: Any

    @property
    def is_new(self) -> bool:
        """Whether this is a thing that the call made."""
        return self.status == 201


@dataclass(frozen=True)
class Page:
    """One page of a list, newest first."""

    items: list[Thing]
    limit: int
    offset: int
    has_more: bool


def check_address(url: str) -> str:
    """Return *url* without a final slash; raises BadAddress."""
    try:
        parts = urlsplit(url)
        is_good = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        is_good = False
    if not is_good or parts.username or parts.password or parts.query or parts.fragment or not url.isprintable():
        raise BadAddress
    return url.rstrip("/")


def check_credential(credential: str) -> str:
    """Return *credential*; raises BadCredential, which does not repeat it."""
    if not credential or not all("!" <= character <= "~" for character in credential):
        raise BadCredential
    return credential


def listing(collection: str, *, limit: int, offset: int, **filters: object) -> Call:
    """Return the call for one page; filters that are None are left out."""
    given = {name: _as_query(value) for name, value in filters.items() if value is not None}
    return Call("GET", f"{PREFIX}/{collection}", query={"limit": limit, "offset": offset, **given})


def getting(collection: str, thing_id: str) -> Call:
    """Return the call for one thing."""
    return Call("GET", f"{PREFIX}/{collection}/{quote(thing_id, safe='')}")


def creating(collection: str, fields: Mapping[str, Any]) -> Call:
    """Return the call that makes a thing."""
    return Call("POST", f"{PREFIX}/{collection}", body=fields)


def acting(collection: str, thing_id: str, verb: str, fields: Mapping[str, Any] | None) -> Call:
    """Return the call that changes a thing, or makes one that belongs to it."""
    return Call("POST", f"{PREFIX}/{collection}/{quote(thing_id, safe='')}/{verb}", body=fields)


def read(call: Call, *, status: int, content: bytes, headers: Mapping[str, str]) -> Answer:
    """Return the answer to *call*; raises Refused, rebuilt from the problem, or StrangeAnswer."""
    value = _value(content)
    if status in (200, 201) and value is not None:
        return Answer(status, value)
    if isinstance(value, dict) and isinstance(value.get("code"), str):
        raise _refused(value, status=status, retry_after=headers.get("retry-after", ""))
    raise StrangeAnswer(
        f"{call.method} {shorten(call.path)} was answered with {status} and no JSON of the hub's: is this the hub's "
        "address?"
    )


def page_of(answer: Answer) -> Page:
    """Return the page in *answer*."""
    return Page(**{name: answer.value[name] for name in ("items", "limit", "offset", "has_more")})


def _as_query(value: object) -> object:
    return str(value).lower() if isinstance(value, bool) else value


def _value(content: bytes) -> object:
    try:
        return json.loads(content)
    except (ValueError, RecursionError):
        return None


def _refused(problem: Mapping[str, Any], *, status: int, retry_after: str) -> Refused:
    version = problem.get("current_version")
    return Refused(
        str(problem.get("detail") or problem.get("title") or "Refused"),
        status=status,
        code=problem["code"],
        current_version=version if isinstance(version, int) else None,
        retry_after_s=int(retry_after) if retry_after.isascii() and retry_after.isdecimal() else None,
        faults=tuple(
            Fault(where=str(item.get("where")), rule=str(item.get("rule"))) for item in problem.get("errors") or ()
        ),
    )
