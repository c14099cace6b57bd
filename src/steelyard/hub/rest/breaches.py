"""What a request breaks, said without a word of what was sent.

Pydantic's own messages are not used, since some quote the value. A sentence is made here from the rule's name and the
schema's own numbers; of the place only names that a schema has are kept, for a caller's keys may be secrets too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from steelyard.hub.rest.patterns import RULE_OF_PATTERN

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

UNKNOWN = "*"
MOST_BREACHES = 20  # That a problem tells.
# By pydantic's name of the rule; the fields are those of the schema, never of the request.
_SENTENCES: Mapping[str, str] = {
    "missing": "is required",
    "extra_forbidden": "is no field of this request; /openapi.json lists those that are",
    "string_type": "must be a string",
    "string_too_short": "must have at least {min_length} characters",
    "string_too_long": "must have at most {max_length} characters",
    "string_pattern_mismatch": "must match {pattern}",
    "int_type": "must be an integer",
    "int_parsing": "must be an integer",
    "int_parsing_size": "must be an integer of fewer digits",
    "int_from_float": "must be an integer",
    "float_type": "must be a number",
    "float_parsing": "must be a number",
    "finite_number": "must be a finite number",
    "bool_type": "must be true or false",
    "bool_parsing": "must be true or false",
    "greater_than": "must be greater than {gt}",
    "greater_than_equal": "must be at least {ge}",
    "less_than": "must be less than {lt}",
    "less_than_equal": "must be at most {le}",
    "literal_error": "must be {expected}",
    "enum": "must be {expected}",
    "uuid_type": "must be a UUID",
    "uuid_parsing": "must be a UUID",
    "dict_type": "must be an object",
    "model_type": "must be an object",
    "model_attributes_type": "must be an object",
    "list_type": "must be an array",
    "too_short": "must have at least {min_length} items",
    "too_long": "must have at most {max_length} items",
    "datetime_type": "must be a time with its zone, such as 2026-12-01T09:00:00Z",
    "datetime_parsing": "must be a time with its zone, such as 2026-12-01T09:00:00Z",
    "datetime_from_date_parsing": "must be a time with its zone, such as 2026-12-01T09:00:00Z",
    "timezone_aware": "must be a time with its zone, such as 2026-12-01T09:00:00Z",
}
_OWN_RULE = "value_error"  # Of a validator of ours, whose sentences quote nothing.


def breach(error: Mapping[str, Any], *, names: Collection[str]) -> dict[str, str]:
    """Return the place and the rule of one of pydantic's errors; *names* are those that requests have."""
    return {"where": _place(error["loc"], names), "rule": _rule(error["type"], error.get("ctx", {}))}


def _place(location: Sequence[object], names: Collection[str]) -> str:
    return ".".join(str(part) if isinstance(part, int) or part in names else UNKNOWN for part in location)


def _rule(kind: str, context: Mapping[str, Any]) -> str:
    if kind == _OWN_RULE:
        return str(context["error"])
    if context.get("pattern") in RULE_OF_PATTERN:
        return RULE_OF_PATTERN[context["pattern"]]
    return _SENTENCES.get(kind, "is not valid").format_map(context)
