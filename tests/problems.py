"""What a refusal must be: a problem of the contract with its status and code, and nothing in it that was sent."""

from __future__ import annotations

import functools
import json
import re
import uuid
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

if TYPE_CHECKING:
    from collections.abc import Iterator

    from httpx2 import Response

MEMBERS = {"type", "title", "status", "detail", "instance", "code", "retryable", "current_version", "errors"}
_SHORTEST = 8  # Shorter texts stand in sentences by chance.
_WORDS = {"cancelled"}  # Sent as an outcome, and part of our own sentences.


def refused(answer: Response, status: int, code: str, *, spared: frozenset[str] = frozenset()) -> Any:
    """Return the problem; *spared* are texts that the hub may name, since it has them from elsewhere."""
    assert (answer.status_code, answer.json().get("code")) == (status, code), answer.text
    problem = answer.json()
    assert answer.headers["content-type"] == "application/problem+json"
    assert set(problem) <= MEMBERS
    assert problem["status"] == status
    assert problem["instance"] == uuid.UUID(answer.headers["x-request-id"]).urn
    assert len(answer.content) < 20_000
    said = answer.text + repr(answer.headers.raw)
    echoes = [text for text in _sent(answer.request) if text not in spared and text in said]
    assert echoes == [], answer.text
    return problem


def _sent(request: Any) -> Iterator[str]:
    """Give every text of a request that an answer could repeat: of its path, its query, its credential and its body."""
    texts = [*request.url.path.split("/"), *request.url.params.values(), request.headers.get("authorization", "")[7:]]
    try:
        texts += _texts(json.loads(request.content))
    except (ValueError, RecursionError):
        words = set(re.findall(r"[\w-]+", request.content.decode("utf-8", "replace")))
        texts += words - _fields()
    parts = {"selected-model-comparisons", "api"}  # Paths that everybody knows.
    yield from (unquote(text) for text in texts if len(text) >= _SHORTEST and text not in _WORDS | parts)


def _texts(value: object) -> Iterator[str]:
    if isinstance(value, dict):
        for name, item in value.items():
            if name not in _fields():
                yield name
            yield from _texts(item)
    elif isinstance(value, list):
        for item in value:
            yield from _texts(item)
    elif isinstance(value, str):
        yield value


@functools.cache
def _fields() -> frozenset[str]:
    """Return the names that requests have, which a problem may say."""
    from steelyard.hub.app import build_document  # noqa: PLC0415  # Most tests need no hub.
    from steelyard.hub.rest.openapi import names_in  # noqa: PLC0415

    return names_in(build_document())
