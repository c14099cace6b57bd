"""What is wrong with a file, in the hub's own sentences, before the hub is asked.

Here the full place is told, names of the file's author included: it is his own terminal.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from steelyard.hub.remote.fields import schema_called
from steelyard.hub.rest.breaches import breach

if TYPE_CHECKING:
    from pydantic import BaseModel

Place = tuple[int | str, ...]
_MOST_FAULTS = 20


def checked(schema: str, value: Any) -> tuple[BaseModel | None, list[tuple[Place, str]]]:
    """Return *value* as the schema of this name reads it, or None and each broken rule with its place."""
    model = schema_called(schema)
    from pydantic import ValidationError  # noqa: PLC0415  # It comes with the extra `hub`.

    try:
        return model.model_validate(value), []
    except ValidationError as error:
        return None, [(item["loc"], _rule(item)) for item in error.errors(include_url=False)]


def as_lines(faults: list[str]) -> str:
    """Return the first faults, each on a line of its own, and how many more there are."""
    more = [f"and {len(faults) - _MOST_FAULTS} more"] if len(faults) > _MOST_FAULTS else []
    return "".join(f"\n  {fault}" for fault in [*faults[:_MOST_FAULTS], *more])


def dotted(place: Place) -> str:
    """Return the place as one text."""
    return ".".join(map(str, place))


def _rule(item: Any) -> str:
    if item["type"] == "extra_forbidden":
        return "is no name that is known here"
    return breach(item, names=[str(part) for part in item["loc"]])["rule"]
