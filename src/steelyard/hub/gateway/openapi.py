"""The gateway's part of the hub's OpenAPI document."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from steelyard.hub.gateway.domain.calls import ENCODING_FORMATS, INPUT_TYPES, MOST_INPUTS
from steelyard.web.openapi import object_of, ref

if TYPE_CHECKING:
    from collections.abc import Mapping

_MEANINGS: Mapping[int, str] = {
    400: "What was sent is no HTTP; this answer alone is a problem.",
    401: "No live credential was sent.",
    403: "Only a service client with the capability may embed.",
    404: "No active route of the client has this name.",
    408: "The body did not arrive in time.",
    413: "The body is too large.",
    415: "The body's Content-Encoding is not supported.",
    422: "The request breaks a rule, or an input is longer than the model takes.",
    429: "Too many requests: of this credential, without one from this address, or in progress.",
    500: "Something failed that nobody foresaw.",
    502: "The embedding server failed, or its vectors are not those of the deployment.",
    503: "The store or the embedding server is away or has too much to do, or the hub is going down.",
    504: "The embedding server did not answer in time.",
}
_NAME_OF = {status: f"Gateway{status}" for status in _MEANINGS}
_REQUEST_ID = {"x-request-id": {"$ref": "#/components/headers/x-request-id"}}
_RETRY_AFTER = {"Retry-After": {"description": "Seconds.", "schema": {"type": "integer", "minimum": 1}}}
_EXAMPLE_CALL = {"model": "stable", "input": "How do I get a refund?"}
_USAGE = {"prompt_tokens": 8, "total_tokens": 8}
_EXAMPLE_ANSWER = {
    "object": "list",
    "data": [{"object": "embedding", "index": 0, "embedding": [0.6, -0.8]}],
    "model": "stable",
    "usage": _USAGE,
}
_EXAMPLE_MODELS = {
    "object": "list",
    "data": [{"id": "stable", "object": "model", "created": 1796115600, "owned_by": "search"}],
}
_STRING = {"type": "string"}
_INTEGER = {"type": "integer"}


def gateway_document() -> dict[str, Any]:
    """Return the paths and the components of the gateway."""
    return {
        "paths": {"/v1/embeddings": {"post": _embed()}, "/v1/models": {"get": _models()}},
        "components": {
            "schemas": _schemas(),
            "responses": {_NAME_OF[status]: _refusal(status) for status in _MEANINGS},
        },
    }


def _embed() -> dict[str, Any]:
    return {
        "operationId": "create_embeddings",
        "tags": ["gateway"],
        "summary": "Embed texts through one of the client's routes.",
        "requestBody": {"required": True, "content": _content("NewEmbeddings", _EXAMPLE_CALL)},
        "responses": _responses("Embeddings", _EXAMPLE_ANSWER, refusals=_MEANINGS),
    }


def _models() -> dict[str, Any]:
    return {
        "operationId": "list_models",
        "tags": ["gateway"],
        "summary": "List the client's routes that lead to an active deployment.",
        "responses": _responses("Models", _EXAMPLE_MODELS, refusals=(400, 401, 403, 429, 500, 503)),
    }


def _responses(schema: str, example: object, *, refusals: Any) -> dict[str, Any]:
    done = {"description": "OK", "headers": _REQUEST_ID, "content": _content(schema, example)}
    return {
        "200": done,
        **{str(status): {"$ref": f"#/components/responses/{_NAME_OF[status]}"} for status in refusals},
    }


def _refusal(status: int) -> dict[str, Any]:
    headers = {**_REQUEST_ID, **(_RETRY_AFTER if status in (429, 503) else {})}
    if status == 401:
        headers["WWW-Authenticate"] = {"description": "`Bearer`.", "schema": _STRING}
    kind, schema = ("application/problem+json", "Problem") if status == 400 else ("application/json", "OpenAIError")
    return {"description": _MEANINGS[status], "headers": headers, "content": {kind: {"schema": ref(schema)}}}


def _content(schema: str, example: object) -> dict[str, Any]:
    return {"application/json": {"schema": ref(schema), "example": example}}


def _or_null(schema: Mapping[str, object]) -> dict[str, Any]:
    return {"anyOf": [schema, {"type": "null"}]}


def _schemas() -> dict[str, Any]:
    text = {"type": "string", "minLength": 1}
    texts = {"type": "array", "items": text, "minItems": 1, "maxItems": MOST_INPUTS}
    call = object_of(
        {"model": {**text, "description": "The route: `stable`, or an experiment's slug."},
         "input": {"anyOf": [text, texts]}},
        {"encoding_format": _or_null({"enum": list(ENCODING_FORMATS)}),
         "dimensions": _or_null(_INTEGER),
         "input_type": _or_null({"enum": list(INPUT_TYPES), "description": "Which prompt of the identity is added."}),
         "user": {"description": "Ignored; OpenAI's clients send it."}},
    )  # fmt: skip
    vector = {"anyOf": [{"type": "array", "items": {"type": "number"}}, {**_STRING, "contentEncoding": "base64"}]}
    embedding = object_of({"object": {"const": "embedding"}, "index": _INTEGER, "embedding": vector})
    usage = object_of({"prompt_tokens": _INTEGER, "total_tokens": _INTEGER})
    model = object_of({"id": _STRING, "object": {"const": "model"}, "created": _INTEGER, "owned_by": _STRING})
    error = object_of({"message": _STRING, "type": _STRING, "param": _or_null(_STRING), "code": _STRING})
    listed = {"const": "list"}
    return {
        "NewEmbeddings": {**call, "additionalProperties": False},
        "Embeddings": object_of({
            "object": listed, "data": {"type": "array", "items": embedding}, "model": _STRING, "usage": usage,
        }),
        "Models": object_of({"object": listed, "data": {"type": "array", "items": model}}),
        "OpenAIError": object_of({"error": error}),
    }  # fmt: skip
