"""The OpenAPI document: what FastAPI derives, and what holds for every operation.

FastAPI knows an endpoint's parameters, body and answer. That every operation asks for a credential, may be refused in
nine ways and answers each with a problem is added here, once, so that no endpoint can forget it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pydantic import TypeAdapter

from steelyard.hub.rest.problems import MEDIA_TYPE, TITLE_OF, Problem

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

Document = dict[str, Any]

_ALWAYS = frozenset({400, 429, 500, 503})
_WITH_BODY = frozenset({408, 413, 415, 422})
_LEFT_OVER = ("HTTPValidationError", "ValidationError")
_REF = "#/components/schemas/"
_HEADERS: Mapping[int, Mapping[str, Any]] = {
    401: {"WWW-Authenticate": {"description": "`Bearer`.", "schema": {"type": "string"}}},
    429: {"Retry-After": {"description": "Seconds.", "schema": {"type": "integer", "minimum": 1}}},
    503: {"Retry-After": {"description": "Seconds.", "schema": {"type": "integer", "minimum": 1}}},
}
_MEANINGS: Mapping[int, str] = {
    400: "What was sent is no HTTP.",
    401: "No live credential was sent.",
    403: "The credential's role does not allow this.",
    404: "There is nothing that the caller may know of at this path.",
    408: "The body did not arrive in time.",
    409: "What was sent does not fit the present state.",
    413: "The body is too large.",
    415: "The body's Content-Encoding is not supported.",
    422: "What was sent breaks a rule.",
    429: "Too many requests: of this credential, or without one from this address.",
    500: "Something failed that nobody foresaw.",
    503: "The store is away, busy, full or read-only, or the hub is going down.",
}


def complete(document: Document, *, examples: Mapping[str, object], open_paths: Iterable[str]) -> Document:
    """Return FastAPI's *document* with what it does not know; *examples* are answers by their schema's name."""
    components = document.setdefault("components", {})
    schemas = components.setdefault("schemas", {})
    for name in _LEFT_OVER:
        schemas.pop(name, None)
    schemas.update(_schemas_of(Problem))
    components["responses"] = {_name(status): _refusal(status) for status in _MEANINGS}
    components["headers"] = {
        "x-request-id": {"description": "The request's id, which the log has.", "schema": {"type": "string"}}
    }
    components["securitySchemes"] = {
        "bearer": {"type": "http", "scheme": "bearer", "description": "A credential's secret, `steelyard_…`."}
    }
    document["security"] = [{"bearer": []}]
    open_paths = set(open_paths)
    for path, item in document["paths"].items():
        for operation in item.values():
            _complete_operation(operation, path=path, is_open=path in open_paths, examples=examples)
    return document


def merge(document: Document, *others: Document) -> Document:
    """Add the paths and the schemas of *others*, which are documents already complete, to *document*."""
    for other in others:
        document["paths"].update(other["paths"])
        for kind, parts in other.get("components", {}).items():
            document["components"].setdefault(kind, {}).update(parts)
    return document


def names_in(document: Document) -> frozenset[str]:
    """Return every name that a request of *document* may have: of a field, a parameter, or a part of the request."""
    fields = {name for schema in document["components"]["schemas"].values() for name in schema.get("properties", ())}
    parameters = {
        parameter["name"]
        for item in document["paths"].values()
        for operation in item.values()
        for parameter in operation.get("parameters", ())
    }
    return frozenset(fields | parameters | {"body", "query", "path"})


def plain_operation(
    operation_id: str,
    *,
    summary: str,
    content: Mapping[str, object],
    parameters: Iterable[object] = (),
    statuses: Iterable[int] = (),
) -> dict[str, Any]:
    """Return a GET that FastAPI knows nothing of, answered 200 with *content*, or with one of *statuses*."""
    return {
        "operationId": operation_id,
        "tags": ["about"],
        "summary": summary,
        "parameters": list(parameters),
        "responses": {"200": {"description": "OK", "content": content}, **{str(status): {} for status in statuses}},
    }


def _complete_operation(operation: dict[str, Any], *, path: str, is_open: bool, examples: Mapping[str, object]) -> None:
    _summarise(operation)
    declared = operation["responses"]
    own = {int(status) for status in declared if int(status) >= 400}
    statuses = _refusals_of(operation, path=path) | (own - {422})  # FastAPI declares 422 for any parameter.
    if is_open:
        operation["security"] = []
    else:
        statuses.add(401)
    done = {status: _done(response, examples) for status, response in declared.items() if int(status) < 400}
    operation["responses"] = {**done, **{str(status): _reference(status) for status in sorted(statuses)}}


def _summarise(operation: dict[str, Any]) -> None:
    """Make an endpoint's docstring its summary, where FastAPI has made one of the function's name."""
    if operation["summary"].casefold() == operation["operationId"].replace("_", " "):
        summary, _, rest = operation.pop("description").partition(". ")
        operation["summary"] = summary.rstrip(".") + "."
        if rest:
            operation["description"] = rest


def _refusals_of(operation: Mapping[str, Any], *, path: str) -> set[int]:
    """Return the statuses that follow from what an operation takes."""
    statuses = set(_ALWAYS)
    if "requestBody" in operation:
        statuses |= _WITH_BODY
    if any(parameter["in"] == "query" for parameter in operation.get("parameters", ())):
        statuses.add(422)
    if "{" in path:
        statuses.add(404)
    return statuses


def _done(response: dict[str, Any], examples: Mapping[str, object]) -> dict[str, Any]:
    headers = {"x-request-id": {"$ref": "#/components/headers/x-request-id"}, **response.get("headers", {})}
    content = {kind: _with_example(media, examples) for kind, media in response.get("content", {}).items()}
    return {**response, "headers": headers, "content": content}


def _with_example(media: dict[str, Any], examples: Mapping[str, object]) -> dict[str, Any]:
    name = media.get("schema", {}).get("$ref", "").removeprefix(_REF)
    return {**media, "example": examples[name]} if name in examples else media


def _refusal(status: int) -> dict[str, Any]:
    headers = {"x-request-id": {"$ref": "#/components/headers/x-request-id"}, **_HEADERS.get(status, {})}
    content = {MEDIA_TYPE: {"schema": {"$ref": f"{_REF}Problem"}}}
    return {"description": _MEANINGS[status], "headers": headers, "content": content}


def _reference(status: int) -> dict[str, str]:
    return {"$ref": f"#/components/responses/{_name(status)}"}


def _name(status: int) -> str:
    return TITLE_OF[status].replace(" ", "")


def _schemas_of(model: Any) -> dict[str, Any]:
    schema = TypeAdapter(model).json_schema(ref_template=_REF + "{model}")
    return {**schema.pop("$defs", {}), model.__name__: schema}
