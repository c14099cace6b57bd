"""The OpenAPI document of the decision server, written by hand from the contract."""

from __future__ import annotations

from importlib.metadata import version

from steelyard.decide.domain.orderings import METHODS
from steelyard.decide.domain.prompt import PROMPT_VERSION
from steelyard.decide.domain.results import PROBABILITY_STATUS
from steelyard.decide.domain.rows import FEWEST_OPTIONS, MOST_OPTIONS

Schema = dict[str, object]

_ERRORS = {
    "400": "The request is not HTTP.",
    "401": "`unauthorized`: the bearer token is missing or wrong.",
    "404": "`not_found`: nothing is at this path.",
    "405": "`method_not_allowed`: this path does not take this method.",
    "408": "`request_timeout`: the body did not arrive in time.",
    "413": "`request_too_large`: the body, decompressed, is over the limit.",
    "415": "`unsupported_encoding`: a Content-Encoding other than gzip or zstd.",
    "422": "`invalid_request`: bad JSON or shape, a row that breaks a rule, an unknown workload.",
    "429": "`busy`: as many POSTs are in progress as the server takes; see Retry-After.",
    "500": "`scoring_failed`: the model failed; the server's log has the reason.",
    "503": "`out_of_memory`: memory ran out while scoring.",
}
_POST_ERRORS = ("400", "401", "405", "408", "413", "415", "422", "429", "500", "503")


def openapi_document() -> Schema:
    """Return the document as JSON values."""
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "steelyard decision server",
            "version": version("steelyard"),
            "description": "Probabilities over described options from one forward pass of a language model.",
            "license": {"name": "MIT", "identifier": "MIT"},
        },
        "security": [{"bearer": []}],
        "paths": {
            "/health": {"get": _health()},
            "/decide": {"post": _post("Decide one row", "DecideRequest", "DecideResponse", _DECIDE_EXAMPLE)},
            "/decide/shared": {
                "post": _post("Decide many rows over one state", "SharedRequest", "SharedResponse", _SHARED_EXAMPLE)
            },
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


def _get(summary: str, media_type: str, schema: Schema) -> Schema:
    ok: Schema = {"description": summary, "content": {media_type: {"schema": schema}}}
    return {"summary": summary, "responses": {"200": ok} | _errors("400", "401", "405")}


def _post(summary: str, request: str, response: str, example: Schema) -> Schema:
    ok = {"description": "The answer", "content": {"application/json": {"schema": _ref(response)}}}
    return {
        "summary": summary,
        "requestBody": {
            "required": True,
            "content": {"application/json": {"schema": _ref(request), "example": example}},
        },
        "responses": {"200": ok} | _errors(*_POST_ERRORS),
    }


def _errors(*statuses: str) -> Schema:
    return {status: _error(_ERRORS[status]) for status in statuses}


def _error(description: str) -> Schema:
    return {"description": description, "content": {"application/json": {"schema": _ref("Error")}}}


def _ref(name: str) -> Schema:
    return {"$ref": f"#/components/schemas/{name}"}


def _object(required: dict[str, Schema], optional: dict[str, Schema] | None = None) -> Schema:
    return {"type": "object", "required": list(required), "properties": required | (optional or {})}


def _array(items: Schema, **rules: int) -> Schema:
    return {"type": "array", "items": items, **rules}


_TEXT: Schema = {"type": "string"}
_FILLED: Schema = {"type": "string", "minLength": 1}
_NUMBER: Schema = {"type": "number"}
_COUNT: Schema = {"type": "integer", "minimum": 0}
_PROBABILITIES = _array({"type": "number", "minimum": 0, "maximum": 1})
_STATE: Schema = {
    "description": "The evidence: a nonempty string, object or array of finite values.",
    "anyOf": [_FILLED, {"type": "object", "minProperties": 1}, {"type": "array", "minItems": 1}],
}
_ORDERINGS: Schema = {
    "description": "Average over orderings of the options; `all` takes at most four options.",
    "enum": [*METHODS, None],
}
_WORKLOAD: Schema = {"description": "An entry of the calibration table.", "type": ["string", "null"]}
_ERROR_CODES = (
    "invalid_request",
    "unauthorized",
    "not_found",
    "method_not_allowed",
    "request_timeout",
    "request_too_large",
    "unsupported_encoding",
    "busy",
    "scoring_failed",
    "out_of_memory",
    "not_ready",
)
_DECIDE_EXAMPLE: Schema = {
    "id": "ticket-1",
    "state": "The invoice was charged twice.",
    "question": "Which team should answer?",
    "options": [
        {"id": "billing", "description": "Billing: invoices and refunds"},
        {"id": "support", "description": "Technical support"},
    ],
}
_SHARED_EXAMPLE: Schema = {
    "state": _DECIDE_EXAMPLE["state"],
    "decisions": [{k: v for k, v in _DECIDE_EXAMPLE.items() if k != "state"} | {"orderings": "rotations"}],
}


def _schemas() -> Schema:
    question: dict[str, Schema] = {
        "id": _FILLED,
        "question": _FILLED,
        "options": _array(_ref("Option"), minItems=FEWEST_OPTIONS, maxItems=MOST_OPTIONS),
    }
    return {
        "Option": _object({"id": _TEXT, "description": _TEXT}),
        "DecideRequest": _object({**question, "state": _STATE}, {"workload": _WORKLOAD, "orderings": _ORDERINGS}),
        "Decision": _object(question, {"orderings": _ORDERINGS}),
        "SharedRequest": _object(
            {"state": _STATE, "decisions": _array(_ref("Decision"), minItems=1)}, {"workload": _WORKLOAD}
        ),
        "DecideResponse": {"anyOf": [_ref("Result"), _ref("AveragedResult")]},
        "SharedResponse": _object(
            {
                "results": _array({"anyOf": [_ref("Result"), _ref("AveragedResult")]}),
                "timing": {"type": "object", "additionalProperties": _NUMBER},
            }
        ),
        "Result": _result(),
        "AveragedResult": _averaged_result(),
        "Health": _health_schema(),
        "Error": _object({"error": _object({"code": {"enum": list(_ERROR_CODES)}, "message": _FILLED})}),
    }


def _result() -> Schema:
    calibrated = _object({"workload": _TEXT, "temperature": _NUMBER, "probabilities": _PROBABILITIES})
    return _object(
        {
            "id": _TEXT,
            "option_ids": _array(_TEXT),
            "probabilities": _PROBABILITIES,
            "option_logits": _array(_NUMBER),
            "input_tokens": _COUNT,
            "prompt_sha256": {"type": "string", "pattern": "^[0-9a-f]{64}$"},
            "prompt_version": {"const": PROMPT_VERSION},
            "model": {"type": "object"},
            "readout": _TEXT,
            "probability_status": {"const": PROBABILITY_STATUS},
        },
        {"forward_seconds": _NUMBER, "total_seconds": _NUMBER, "calibrated": calibrated},
    )


def _averaged_result() -> Schema:
    combined = _object(
        {
            "method": {"enum": [method for method in METHODS if method != "none"]},
            "orderings": _COUNT,
            "probabilities": _PROBABILITIES,
            "top": _TEXT,
            "agreement": {"type": "number", "minimum": 0, "maximum": 1},
            "spread": {"type": "object", "additionalProperties": _array(_NUMBER, minItems=2, maxItems=2)},
        }
    )
    return _object(
        {"id": _TEXT, "option_ids": _array(_TEXT), "combined": combined, "orderings": _array(_ref("Result"))}
    )


def _health_schema() -> Schema:
    return _object(
        {
            "status": {"const": "ok"},
            "semif_commit": _TEXT,
            "model": {"type": "object"},
            "vram_cap_gib": {"type": ["number", "null"]},
            "max_tokens": _COUNT,
            "max_decisions": _COUNT,
            "workloads": _array(_TEXT),
            "engine": _object({"name": _TEXT, "is_model": {"type": "boolean"}, "tolerance": _NUMBER}),
            "queue": _object({"in_progress": _COUNT, "limit": _COUNT, "running_seconds": {"type": ["number", "null"]}}),
        }
    )
