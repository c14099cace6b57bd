"""The OpenAPI document of the embedding server, written by hand."""

from __future__ import annotations

from steelyard.embed.domain.identity import Pooling
from steelyard.embed.domain.requests import FORMATS, MOST_INPUTS
from steelyard.web.openai import ERROR_TYPES
from steelyard.web.openapi import (
    COUNT,
    FILLED,
    NUMBER,
    REFUSAL_CODES,
    TEXT,
    TRUTH,
    Schema,
    Writer,
    array_of,
    object_of,
    ref,
)

_MEANINGS = {
    "404": "`model_not_found`: another model than the served one is asked for.",
    "422": "`invalid_request`: bad JSON or a broken rule; `input_too_long`: more tokens than the model takes.",
    "500": "`embedding_failed`: the model failed, or gave a value that is not finite.",
    "503": "`out_of_memory`: memory ran out while embedding.",
}
_ERROR_CODES = (*REFUSAL_CODES, "input_too_long", "model_not_found", "embedding_failed", "out_of_memory")
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
    writer = Writer(_MEANINGS, error_example=_ERROR_EXAMPLE)
    embed = writer.post(
        "Embed texts",
        request={"schema": ref("EmbeddingsRequest"), "example": _REQUEST_EXAMPLE},
        answer={"schema": ref("EmbeddingsResponse"), "example": _ANSWER_EXAMPLE},
        answered="One vector per input, in order",
    )
    models = writer.get("The model that is served", "application/json", ref("Models"))
    return writer.document(
        "steelyard embedding server",
        "Texts to vectors with one small ONNX model on the processor, in OpenAI's shape.",
        paths={"/v1/embeddings": {"post": embed}, "/v1/models": {"get": models}},
        schemas=_schemas(),
    )


def _schemas() -> dict[str, Schema]:
    return {
        "EmbeddingsRequest": _request(),
        "EmbeddingsResponse": _response(),
        "Models": object_of(
            {
                "object": {"const": "list"},
                "data": array_of(
                    object_of({"id": TEXT, "object": {"const": "model"}, "created": COUNT, "owned_by": TEXT})
                ),
            }
        ),
        "Health": _health_schema(),
        "Error": object_of(
            {
                "error": object_of(
                    {
                        "message": FILLED,
                        "type": {"enum": list(ERROR_TYPES)},
                        "param": {"type": ["string", "null"]},
                        "code": {"enum": list(_ERROR_CODES)},
                    }
                )
            }
        ),
    }


def _request() -> Schema:
    return object_of(
        {
            "model": {**TEXT, "description": "The served model's name; GET /v1/models shows it."},
            "input": {
                "description": "A text or a list of texts. Tokens are not taken.",
                "anyOf": [FILLED, array_of(FILLED, minItems=1, maxItems=MOST_INPUTS)],
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
    usage = object_of(
        {
            "prompt_tokens": COUNT,
            "total_tokens": COUNT,
            "truncated": {"description": "An extension: the inputs that were cut, by index.", **array_of(COUNT)},
        }
    )
    item = object_of(
        {
            "object": {"const": "embedding"},
            "index": COUNT,
            "embedding": {"anyOf": [array_of(NUMBER), {"type": "string", "contentEncoding": "base64"}]},
        }
    )
    return object_of({"object": {"const": "list"}, "data": array_of(item), "model": TEXT, "usage": usage})


def _health_schema() -> Schema:
    return object_of(
        {
            "status": {"const": "ok"},
            "identity": object_of(
                {
                    "model": TEXT,
                    "dimension": COUNT,
                    "pooling": {"enum": list(Pooling)},
                    "is_normalised": TRUTH,
                    "max_tokens": COUNT,
                    "dtype": TEXT,
                    "output": TEXT,
                }
            ),
            "runtime": object_of({"name": TEXT, "is_model": TRUTH, "tolerance": NUMBER}),
            "limits": object_of(
                {
                    "max_inputs": COUNT,
                    "max_batch_tokens": COUNT,
                    "max_batch_rows": COUNT,
                    "max_body_bytes": COUNT,
                }
            ),
            "queue": object_of(
                {
                    "in_progress": COUNT,
                    "limit": COUNT,
                    "waiting_rows": COUNT,
                    "running_seconds": {"type": ["number", "null"]},
                }
            ),
        }
    )
