"""Types of fields that requests share. Each keeps out what a database or a log could not hold."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Annotated, Any

from pydantic import (
    AfterValidator,
    AwareDatetime,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    GetCoreSchemaHandler,
    StringConstraints,
    model_validator,
)
from pydantic_core import PydanticCustomError
from pydantic_core.core_schema import CoreSchema, no_info_before_validator_function

from steelyard.hall.canonical import canonical_json, require_plain_json
from steelyard.hub.rest.breaches import MOST_BREACHES
from steelyard.hub.rest.patterns import NAME, SHA256, SLUG, WITHOUT_NUL

_LARGEST_INTEGER = 2**31 - 1
_MOST_JSON_CHARACTERS = 10_000
_RFC_3339 = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,9})?(Z|[+-]\d\d:\d\d)", re.ASCII | re.IGNORECASE)


def _rfc_3339(value: object) -> object:
    # A number, in a query too, would be read as seconds or milliseconds, whichever fits.
    if not isinstance(value, str) or not _RFC_3339.fullmatch(value):
        raise ValueError("must be a time as text with its zone, such as 2026-12-01T09:00:00Z")
    return value


def _in_utc(moment: datetime) -> datetime:
    if not 1970 <= moment.year <= 2999:
        raise ValueError("must be a time between the years 1970 and 2999")
    return moment.astimezone(UTC)


Moment = Annotated[AwareDatetime, BeforeValidator(_rfc_3339), AfterValidator(_in_utc)]
Slug = Annotated[
    str,
    StringConstraints(pattern=SLUG),
    Field(description="1 to 64 of a-z, 0-9, dot and hyphen; neither first nor last is a dot or hyphen."),
]
Name = Annotated[
    str,
    StringConstraints(
        min_length=1,
        max_length=200,
        pattern=NAME,
    ),
    Field(description="Without control characters and invisible ones."),
]
Text = Annotated[
    str,
    StringConstraints(max_length=10_000, pattern=WITHOUT_NUL),
    Field(description="Without NUL, which PostgreSQL cannot store."),
]
Sha256 = Annotated[str, StringConstraints(pattern=SHA256), Field(description="Lowercase SHA-256.")]
Version = Annotated[int, Field(ge=1, le=_LARGEST_INTEGER, strict=True)]


def example(**fields: Any) -> ConfigDict:
    """Return the configuration of a Body that the document shows by these fields."""
    return ConfigDict(extra="forbid", json_schema_extra={"examples": [fields]})


class Body(BaseModel):
    """A request's body: unknown fields are refused, since a mistyped one would be lost in silence.

    Each is told, but where there are many of them together: a body of nothing else would make a million faults, which
    take seconds and gigabytes to write down.
    """

    model_config = ConfigDict(extra="forbid")

    @model_validator(mode="before")
    @classmethod
    def _has_few_names(cls, value: Any) -> Any:
        if isinstance(value, dict) and len(value) > len(cls.model_fields) + MOST_BREACHES:
            raise ValueError("has many names that are no fields of this request; /openapi.json lists those that are")
        return value


class CountFirst:
    """Of an object with a `max_length`: its names are counted before any is looked at, for the reason that Body has."""

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        """Return the schema behind the count."""
        schema: Any = handler(source)
        most = schema["max_length"]

        def count(value: Any) -> Any:
            if isinstance(value, dict) and len(value) > most:
                raise PydanticCustomError("too_long", "too many", {"max_length": most})
            return value

        return no_info_before_validator_function(count, schema)


class Expected(Body):
    """A change to a thing as the caller last saw it."""

    model_config = example(expected_version=1)

    expected_version: Version = Field(description="The thing's version as last read; another is a 409.", examples=[1])


class OpenObject(BaseModel):
    """An object with some fields of ours and whatever else of plain JSON; what a digest is over."""

    model_config = ConfigDict(extra="allow")

    @model_validator(mode="before")
    @classmethod
    def _is_plain(cls, value: Any) -> Any:
        require_plain_json(value)
        if len(canonical_json(value)) > _MOST_JSON_CHARACTERS:
            raise ValueError(f"is longer than {_MOST_JSON_CHARACTERS} characters as JSON")
        return value
