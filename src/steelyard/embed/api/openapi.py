"""The OpenAPI document of the embedding server, written by hand."""

from __future__ import annotations

from importlib.metadata import version

from steelyard.embed.domain.identity import Pooling
from steelyard.embed.domain.requests import FORMATS, MOST_INPUTS
from steelyard.web.openai import ERROR_TYPES

Schema = dict[str, object]

_ERRORS = {
    "400": "The request is not HTTP.",
    "401": "`unauthorized`: the bearer token is missing or wrong.",
    "404": "`model_not_found`: another model than the served one is asked for.",
    "405": "`method_not_allowed`: this path does not take this method.",
    "408": "`request_timeout`: the body did not arrive in time.",
    "413": "`request_too_large`: the body, decompressed, is over the limit.",
    "415": "`unsupported_encoding`: a Content-Encoding other than gzip or zstd.",
    "422": "`invalid_request`: bad JSON or a broken rule; `input_too_long`: more tokens than the model takes.",
    "429": "`busy`: as many POSTs are in progress as the server takes; see Retry-After.",
    "500": "`embedding_failed`: the model failed, or gave a value that is not finite.",
    "503": "`out_of_memory`: memory ran out while embedding.",
}
_POST_ERRORS = ("400", "401", "404", "405", "408", "413", "415", "422", "429", "500", "503")
_ERROR_CODES = (
    "invalid_request",
    "input_too_long",
    "model_not_found",
    "unauthorized",
    "not_found",
    "method_not_allowed",
    "request_timeout",
    "request_too_large",
    "unsupported_encoding",
    "busy",
    "embedding_failed",
    "out_of_memory",
    "not_ready",
)
_REQUEST_EXAMPLE: Schema = {
    "model": "all-minilm-l6-v2-int8",
    "input": ["The invoice was charged twice.", "We were billed two times."],
    "encoding_format": "float",
}
_ANSWER_EXAMPLE: Schema = {
    "object": "list",
    "data": [
        {"object": "embedding", "index": 0, "embedding": [0.25, -0.5]},
        {"object": "embedding", "index": 1, "embedding": [0.25, -0.4375]},
    ],
    "model": "all-minilm-l6-v2-int8",
    "usage": {"prompt_tokens": 16, "total_tokens": 16, "truncated": []},
}
_ERROR_EXAMPLE: Schema = {
    "error": {
        "message": "`input[0]` is an empty string",
        "type": "invalid_request_error",
        "param": "input",
        "code": "invalid_request",
    }
}


def openapi_document() -> Schema:
    """Return the document as JSON values."""
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "steelyard embedding server",
            "version": version("steelyard"),
            "description": "Texts to vectors with one small ONNX model on the processor, in OpenAI's shape.",
            "license": {"name": "MIT", "identifier": "MIT"},
        },
        "security": [{"bearer": []}],
        "paths": {
            "/health": {"get": _health()},
            "/v1/embeddings": {"post": _embeddings()},
            "/v1/models": {"get": _get("The model that is served", "application/json", _ref("Models"))},
            "/metrics": {"get": _get("Counters in Prometheus's text format", "text/plain", {"type": "string"})},
            "/openapi.json": {"get": _get("This document", "application/json", {"type": "object"})},
        },
        "components": {
            "securitySchemes": {"bearer": {"type": "http", "scheme": "bearer"}},
            "schemas": _schemas(),
        },
    }


def _health() -> Schema:
    operation = _get("What is served, and whether new work is welcome", "application/json", _ref("Health"))
    ready: Schema = {
        "name": "ready",
        "in": "query",
        "required": False,
        "allowEmptyValue": True,
        "schema": {"type": "string"},
        "description": "Present: answer 503 while the server is going down, for load balancers.",
    }
    errors = _errors("400", "405") | {"503": _error("`not_ready`: the server is going down.")}
    ok = operation["responses"]["200"]  # type: ignore[index]  # It was built just above.
    return operation | {"parameters": [ready], "security": [], "responses": {"200": ok} | errors}


def _embeddings() -> Schema:
    answer = {"schema": _ref("EmbeddingsResponse"), "example": _ANSWER_EXAMPLE}
    return {
        "summary": "Embed texts",
        "requestBody": {
            "required": True,
            "content": {"application/json": {"schema": _ref("EmbeddingsRequest"), "example": _REQUEST_EXAMPLE}},
        },
        "responses": {"200": {"description": "One vector per input, in order", "content": {"application/json": answer}}}
        | _errors(*_POST_ERRORS),
    }


def _get(summary: str, media_type: str, schema: Schema) -> Schema:
    ok: Schema = {"description": summary, "content": {media_type: {"schema": schema}}}
    return {"summary": summary, "responses": {"200": ok} | _errors("400", "401", "405")}


def _errors(*statuses: str) -> Schema:
    return {status: _error(_ERRORS[status]) for status in statuses}


def _error(description: str) -> Schema:
    content = {"application/json": {"schema": _ref("Error"), "example": _ERROR_EXAMPLE}}
    return {"description": description, "content": content}


def _ref(name: str) -> Schema:
    return {"$ref": f"#/components/schemas/{name}"}


def _object(required: dict[str, Schema], optional: dict[str, Schema] | None = None) -> Schema:
    return {"type": "object", "required": list(required), "properties": required | (optional or {})}


def _array(items: Schema, **rules: int) -> Schema:
    return {"type": "array", "items": items, **rules}


_TEXT: Schema = {"type": "string"}
_FILLED: Schema = {"type": "string", "minLength": 1}
_NUMBER: Schema = {"type": "number"}
_TRUTH: Schema = {"type": "boolean"}
_COUNT: Schema = {"type": "integer", "minimum": 0}


def _schemas() -> Schema:
    return {
        "EmbeddingsRequest": _request(),
        "EmbeddingsResponse": _response(),
        "Models": _object(
            {
                "object": {"const": "list"},
                "data": _array(
                    _object({"id": _TEXT, "object": {"const": "model"}, "created": _COUNT, "owned_by": _TEXT})
                ),
            }
        ),
        "Health": _health_schema(),
        "Error": _object(
            {
                "error": _object(
                    {
                        "message": _FILLED,
                        "type": {"enum": list(ERROR_TYPES)},
                        "param": {"type": ["string", "null"]},
                        "code": {"enum": list(_ERROR_CODES)},
                    }
                )
            }
        ),
    }


def _request() -> Schema:
    return _object(
        {
            "model": {**_TEXT, "description": "The served model's name; GET /v1/models shows it."},
            "input": {
                "description": "A text or a list of texts. Tokens are not taken.",
                "anyOf": [_FILLED, _array(_FILLED, minItems=1, maxItems=MOST_INPUTS)],
            },
        },
        {
            "encoding_format": {
                "description": "`base64`: the vector's FP32 components, little-endian.",
                "enum": [*FORMATS, None],
            },
            "dimensions": {"description": "If given, the model's own.", "type": ["integer", "null"]},
            "user": {"description": "Ignored."},
            "truncate": {
                "description": "An extension: embed the beginning of too long an input instead of refusing it.",
                "type": ["boolean", "null"],
            },
        },
    )


def _response() -> Schema:
    usage = _object(
        {
            "prompt_tokens": _COUNT,
            "total_tokens": _COUNT,
            "truncated": {"description": "An extension: the inputs that were cut, by index.", **_array(_COUNT)},
        }
    )
    item = _object(
        {
            "object": {"const": "embedding"},
            "index": _COUNT,
            "embedding": {"anyOf": [_array(_NUMBER), {"type": "string", "contentEncoding": "base64"}]},
        }
    )
    return _object({"object": {"const": "list"}, "data": _array(item), "model": _TEXT, "usage": usage})


def _health_schema() -> Schema:
    return _object(
        {
            "status": {"const": "ok"},
            "identity": _object(
                {
                    "model": _TEXT,
                    "dimension": _COUNT,
                    "pooling": {"enum": list(Pooling)},
                    "is_normalised": _TRUTH,
                    "max_tokens": _COUNT,
                    "dtype": _TEXT,
                    "output": _TEXT,
                }
            ),
            "runtime": _object({"name": _TEXT, "is_model": _TRUTH, "tolerance": _NUMBER}),
            "limits": _object(
                {
                    "max_inputs": _COUNT,
                    "max_batch_tokens": _COUNT,
                    "max_batch_rows": _COUNT,
                    "max_body_bytes": _COUNT,
                }
            ),
            "queue": _object(
                {
                    "in_progress": _COUNT,
                    "limit": _COUNT,
                    "waiting_rows": _COUNT,
                    "running_seconds": {"type": ["number", "null"]},
                }
            ),
        }
    )
