"""OpenAPI links: which operation an answer's fields lead to."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping


def link(
    operation: str, *, path: Mapping[str, str] | None = None, body: Mapping[str, str] | None = None
) -> dict[str, Any]:
    """Return the link to *operation*; *path* and *body* name the answer's fields that its own fields take."""
    parts: dict[str, Any] = {"operationId": operation}
    if path:
        parts["parameters"] = _from_answer(path)
    if body:
        parts["requestBody"] = _from_answer(body)
    return parts


def location() -> dict[str, Any]:
    """Return the header that an answer has which made something."""
    return {"Location": {"description": "The new thing's path.", "schema": {"type": "string"}}}


def _from_answer(fields: Mapping[str, str]) -> dict[str, str]:
    return {name: f"$response.body#/{field}" for name, field in fields.items()}
