"""Types of fields that requests share. Each keeps out what a database or a log could not hold."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated, Any

from pydantic import AfterValidator, AwareDatetime, BaseModel, ConfigDict, Field, StringConstraints, model_validator

from steelyard.hall.canonical import canonical_json, require_plain_json

_LARGEST_INTEGER = 2**31 - 1
_MOST_JSON_CHARACTERS = 10_000


def _printable(text: str) -> str:
    if not text.isprintable():
        raise ValueError("holds a character that cannot be printed")
    return text


def without_nul(text: str) -> str:
    """Return *text*; raises ValueError where it holds a NUL character."""
    if "\x00" in text:
        raise ValueError("holds a NUL character, which PostgreSQL cannot store")
    return text


def _in_utc(moment: datetime) -> datetime:
    if not 1970 <= moment.year <= 2999:  # Near the ends of the calendar another zone has no such time.
        raise ValueError("must be a time between the years 1970 and 2999")
    return moment.astimezone(UTC)


Moment = Annotated[AwareDatetime, AfterValidator(_in_utc)]
Slug = Annotated[
    str,
    StringConstraints(pattern=r"^[a-z0-9]([a-z0-9.-]{0,62}[a-z0-9])?$"),
    Field(description="1 to 64 of a-z, 0-9, dot and hyphen; neither first nor last is a dot or hyphen."),
]
Name = Annotated[str, StringConstraints(min_length=1, max_length=200), AfterValidator(_printable)]
Text = Annotated[str, StringConstraints(max_length=10_000), AfterValidator(without_nul)]
Sha256 = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$"), Field(description="Lowercase SHA-256.")]
Version = Annotated[int, Field(ge=1, le=_LARGEST_INTEGER, strict=True)]


class Body(BaseModel):
    """A request's body: unknown fields are refused, since a mistyped one would be lost in silence."""

    model_config = ConfigDict(extra="forbid")


class Expected(Body):
    """A change to a thing as the caller last saw it."""

    model_config = ConfigDict(extra="forbid", json_schema_extra={"examples": [{"expected_version": 1}]})

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
