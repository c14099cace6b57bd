"""Pieces of the OpenAPI documents that are written by hand: schemas, errors, and the frame of a token's service."""

from __future__ import annotations

from importlib.metadata import version
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

Schema = dict[str, object]

TEXT: Schema = {"type": "string"}
FILLED: Schema = {"type": "string", "minLength": 1}
NUMBER: Schema = {"type": "number"}
TRUTH: Schema = {"type": "boolean"}
COUNT: Schema = {"type": "integer", "minimum": 0}
# What the shared plumbing refuses, by status; a service adds its own.
REFUSALS: Mapping[str, str] = {
    "400": "The request is not HTTP.",
    "401": "`unauthorized`: the bearer token is missing or wrong.",
    "405": "`method_not_allowed`: this path does not take this method.",
    "408": "`request_timeout`: the body did not arrive in time.",
    "413": "`request_too_large`: the body, decompressed, is over the limit.",
    "415": "`unsupported_encoding`: a Content-Encoding other than gzip or zstd.",
    "429": "`busy`: as many POSTs are in progress as the server takes; see Retry-After.",
}
REFUSAL_CODES = (
    "invalid_request",
    "unauthorized",
    "not_found",
    "method_not_allowed",
    "request_timeout",
    "request_too_large",
    "unsupported_encoding",
    "busy",
    "not_ready",
)
_READY: Schema = {
    "name": "ready",
    "in": "query",
    "required": False,
    "allowEmptyValue": True,
    "schema": TEXT,
    "description": "Present: answer 503 while the server is going down, for load balancers.",
}


def ref(name: str) -> Schema:
    """Return a reference to the schema *name*."""
    return {"$ref": f"#/components/schemas/{name}"}


def object_of(required: Mapping[str, object], optional: Mapping[str, object] | None = None) -> Schema:
    """Return the schema of an object whose fields have these schemas."""
    return {"type": "object", "required": list(required), "properties": {**required, **(optional or {})}}


def array_of(items: Schema, **rules: int) -> Schema:
    """Return the schema of an array; *rules* are such as minItems."""
    return {"type": "array", "items": items, **rules}


class Writer:
    """Writes operations whose errors are *meanings* by status, and look like the schema `Error`."""

    def __init__(self, meanings: Mapping[str, str], *, error_example: Schema | None = None) -> None:
        self._meanings = {**REFUSALS, **meanings}
        self._example = {"example": error_example} if error_example else {}

    def document(
        self, title: str, description: str, *, paths: Mapping[str, Schema], schemas: Mapping[str, Schema]
    ) -> Schema:
        """Return a service's document; the paths that every one has are added to *paths*, as first and last."""
        return {
            "openapi": "3.1.0",
            "info": {
                "title": title,
                "version": version("steelyard"),
                "description": description,
                "license": {"name": "MIT", "identifier": "MIT"},
            },
            "security": [{"bearer": []}],
            "paths": {
                "/health": {"get": self._health()},
                **paths,
                "/metrics": {"get": self.get("Counters in Prometheus's text format", "text/plain", TEXT)},
                "/openapi.json": {"get": self.get("This document", "application/json", {"type": "object"})},
            },
            "components": {"securitySchemes": {"bearer": {"type": "http", "scheme": "bearer"}}, "schemas": schemas},
        }

    def get(self, summary: str, media_type: str, schema: Schema) -> Schema:
        """Return an operation that takes nothing."""
        ok: Schema = {"description": summary, "content": {media_type: {"schema": schema}}}
        return {"summary": summary, "responses": {"200": ok} | self.errors("400", "401", "405")}

    def post(self, summary: str, *, request: Schema, answer: Schema, answered: str = "The answer") -> Schema:
        """Return an operation with JSON in and out; *request* and *answer* are a schema and, if wanted, an example."""
        ok = {"description": answered, "content": {"application/json": answer}}
        return {
            "summary": summary,
            "requestBody": {"required": True, "content": {"application/json": request}},
            "responses": {"200": ok} | self.errors(*sorted(self._meanings)),
        }

    def errors(self, *statuses: str) -> Schema:
        """Return the error responses of these statuses."""
        return {status: self._error(self._meanings[status]) for status in statuses}

    def _error(self, description: str) -> Schema:
        content = {"application/json": {"schema": ref("Error"), **self._example}}
        return {"description": description, "content": content}

    def _health(self) -> Schema:
        summary = "What is served, and whether new work is welcome"
        ok: Schema = {"description": summary, "content": {"application/json": {"schema": ref("Health")}}}
        errors = self.errors("400", "405") | {"503": self._error("`not_ready`: the server is going down.")}
        return {"summary": summary, "responses": {"200": ok} | errors, "parameters": [_READY], "security": []}
