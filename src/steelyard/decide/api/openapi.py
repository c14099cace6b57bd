"""The OpenAPI document of the decision server, written by hand from the contract."""

from __future__ import annotations

from steelyard.decide.domain.orderings import METHODS
from steelyard.decide.domain.prompt import PROMPT_VERSION
from steelyard.decide.domain.results import PROBABILITY_STATUS
from steelyard.decide.domain.rows import FEWEST_OPTIONS, MOST_OPTIONS
from steelyard.web.openapi import COUNT, FILLED, NUMBER, REFUSAL_CODES, TEXT, Schema, Writer, array_of, object_of, ref

_MEANINGS = {
    "422": "`invalid_request`: bad JSON or shape, a row that breaks a rule, an unknown workload.",
    "500": "`scoring_failed`: the model failed; the server's log has the reason.",
    "503": "`out_of_memory`: memory ran out while scoring.",
}
_PROBABILITIES = array_of({"type": "number", "minimum": 0, "maximum": 1})
_STATE: Schema = {
    "description": "The evidence: a nonempty string, object or array of finite values.",
    "anyOf": [FILLED, {"type": "object", "minProperties": 1}, {"type": "array", "minItems": 1}],
}
_ORDERINGS: Schema = {
    "description": "Average over orderings of the options; `all` takes at most four options.",
    "enum": [*METHODS, None],
}
_WORKLOAD: Schema = {"description": "An entry of the calibration table.", "type": ["string", "null"]}
_ERROR_CODES = (*REFUSAL_CODES, "scoring_failed", "out_of_memory")
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


def openapi_document() -> Schema:
    """Return the document as JSON values."""
    writer = Writer(_MEANINGS)
    decide = writer.post(
        "Decide one row",
        request={"schema": ref("DecideRequest"), "example": _DECIDE_EXAMPLE},
        answer={"schema": ref("DecideResponse")},
    )
    shared = writer.post(
        "Decide many rows over one state",
        request={"schema": ref("SharedRequest"), "example": _SHARED_EXAMPLE},
        answer={"schema": ref("SharedResponse")},
    )
    return writer.document(
        "steelyard decision server",
        "Probabilities over described options from one forward pass of a language model.",
        paths={"/decide": {"post": decide}, "/decide/shared": {"post": shared}},
        schemas=_schemas(),
    )


def _schemas() -> dict[str, Schema]:
    question: dict[str, Schema] = {
        "id": FILLED,
        "question": FILLED,
        "options": array_of(ref("Option"), minItems=FEWEST_OPTIONS, maxItems=MOST_OPTIONS),
    }
    return {
        "Option": object_of({"id": TEXT, "description": TEXT}),
        "DecideRequest": object_of({**question, "state": _STATE}, {"workload": _WORKLOAD, "orderings": _ORDERINGS}),
        "Decision": object_of(question, {"orderings": _ORDERINGS}),
        "SharedRequest": object_of(
            {"state": _STATE, "decisions": array_of(ref("Decision"), minItems=1)}, {"workload": _WORKLOAD}
        ),
        "DecideResponse": {"anyOf": [ref("Result"), ref("AveragedResult")]},
        "SharedResponse": object_of(
            {
                "results": array_of({"anyOf": [ref("Result"), ref("AveragedResult")]}),
                "timing": {"type": "object", "additionalProperties": NUMBER},
            }
        ),
        "Result": _result(),
        "AveragedResult": _averaged_result(),
        "Health": _health_schema(),
        "Error": object_of({"error": object_of({"code": {"enum": list(_ERROR_CODES)}, "message": FILLED})}),
    }


def _result() -> Schema:
    calibrated = object_of({"workload": TEXT, "temperature": NUMBER, "probabilities": _PROBABILITIES})
    return object_of(
        {
            "id": TEXT,
            "option_ids": array_of(TEXT),
            "probabilities": _PROBABILITIES,
            "option_logits": array_of(NUMBER),
            "input_tokens": COUNT,
            "prompt_sha256": {"type": "string", "pattern": "^[0-9a-f]{64}$"},
            "prompt_version": {"const": PROMPT_VERSION},
            "model": {"type": "object"},
            "readout": TEXT,
            "probability_status": {"const": PROBABILITY_STATUS},
        },
        {"forward_seconds": NUMBER, "total_seconds": NUMBER, "calibrated": calibrated},
    )


def _averaged_result() -> Schema:
    combined = object_of(
        {
            "method": {"enum": [method for method in METHODS if method != "none"]},
            "orderings": COUNT,
            "probabilities": _PROBABILITIES,
            "top": TEXT,
            "agreement": {"type": "number", "minimum": 0, "maximum": 1},
            "spread": {"type": "object", "additionalProperties": array_of(NUMBER, minItems=2, maxItems=2)},
        }
    )
    return object_of(
        {"id": TEXT, "option_ids": array_of(TEXT), "combined": combined, "orderings": array_of(ref("Result"))}
    )


def _health_schema() -> Schema:
    return object_of(
        {
            "status": {"const": "ok"},
            "semif_commit": TEXT,
            "model": {"type": "object"},
            "vram_cap_gib": {"type": ["number", "null"]},
            "max_tokens": COUNT,
            "max_decisions": COUNT,
            "workloads": array_of(TEXT),
            "engine": object_of({"name": TEXT, "is_model": {"type": "boolean"}, "tolerance": NUMBER}),
            "queue": object_of({"in_progress": COUNT, "limit": COUNT, "running_seconds": {"type": ["number", "null"]}}),
        }
    )
