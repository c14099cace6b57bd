"""The hub's REST API from a program without an event loop. What is asked and how it is read is in `calls`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

import httpx2

from steelyard.client import calls
from steelyard.client.errors import Unreachable

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from steelyard.client.calls import Answer, Call, Page, Thing

_CONNECT_S = 5.0
_MOST_ITEMS = 100


class HubClient:
    """One caller of one hub; close it, or use it with `with`. Collections are paths such as `project-bindings`.

    Every method raises ClientError. It follows no redirect, and no proxy that the environment names: a credential
    goes to the address given and nowhere else.
    """

    def __init__(
        self, url: str, *, credential: str, timeout_s: float = 30.0, transport: httpx2.BaseTransport | None = None
    ) -> None:
        self.url = calls.check_address(url)
        self._client = httpx2.Client(
            headers={"Authorization": f"Bearer {calls.check_credential(credential)}", "User-Agent": "steelyard"},
            timeout=httpx2.Timeout(timeout_s, connect=_CONNECT_S),
            transport=transport,
            trust_env=False,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections."""
        self._client.close()

    def page(self, collection: str, *, limit: int = 50, offset: int = 0, **filters: object) -> Page:
        """Return one page, newest first; filters that are None do not count."""
        return calls.page_of(self._ask(calls.listing(collection, limit=limit, offset=offset, **filters)))

    def all(self, collection: str, **filters: object) -> Iterator[Thing]:
        """Give every thing, newest first, page by page; one made meanwhile may push another onto two pages."""
        offset, has_more = 0, True
        while has_more:
            page = self.page(collection, limit=_MOST_ITEMS, offset=offset, **filters)
            yield from page.items
            offset, has_more = offset + _MOST_ITEMS, page.has_more

    def get(self, collection: str, thing_id: str) -> Thing:
        """Return one thing."""
        return self._thing(calls.getting(collection, thing_id))

    def create(self, collection: str, fields: Mapping[str, Any]) -> Thing:
        """Make a thing."""
        return self._thing(calls.creating(collection, fields))

    def create_once(self, collection: str, fields: Mapping[str, Any]) -> Answer:
        """Make a thing that *fields* name by an `idempotency_key`; the answer says whether it is new.

        Where no answer comes it asks once more, which the key makes safe: what was made before is answered again.
        """
        call = calls.creating(collection, fields)
        try:
            return self._ask(call)
        except Unreachable:
            return self._ask(call)

    def act(self, collection: str, thing_id: str, verb: str, fields: Mapping[str, Any] | None = None) -> Thing:
        """Change a thing, such as `act("routes", id, "deactivate", {"expected_version": 1})`."""
        return self._thing(calls.acting(collection, thing_id, verb, fields))

    def import_revision(self, suite_id: str, content: Mapping[str, Any]) -> Answer:
        """Import a suite's revision; the answer says whether it is new."""
        return self._ask(calls.acting("suites", suite_id, "revisions", content))

    def apply(self, document: Mapping[str, Any], *, dry_run: bool, plan_digest: str | None = None) -> Thing:
        """Plan what *document* would change and, without *dry_run*, do it, if the plan is still that of the digest."""
        digest = {} if plan_digest is None else {"plan_digest": plan_digest}
        return self._thing(calls.creating("apply", {"document": document, "dry_run": dry_run, **digest}))

    def _thing(self, call: Call) -> Thing:
        thing: Thing = self._ask(call).value
        return thing

    def _ask(self, call: Call) -> Answer:
        try:
            response = self._client.request(call.method, self.url + call.path, params=dict(call.query), json=call.body)
        except httpx2.TimeoutException as error:
            raise Unreachable(f"The hub at {self.url} did not answer in time") from error
        except (httpx2.TransportError, httpx2.InvalidURL) as error:
            raise Unreachable(f"The hub at {self.url} cannot be reached: is `steelyard hub serve` running?") from error
        return calls.read(call, status=response.status_code, content=response.content, headers=response.headers)
