"""The row: one question about one state, with its options. Parsing checks the contract's rules in their order."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

from steelyard.decide.domain.errors import InvalidRequest

if TYPE_CHECKING:
    from collections.abc import Mapping

FEWEST_OPTIONS = 2
MOST_OPTIONS = 16
_FIELDS = ("id", "options", "question", "state")


@dataclass(frozen=True)
class Option:
    """One answer that may be chosen. The model sees the description, never the id."""

    id: str
    description: str


@dataclass(frozen=True)
class Row:
    """A valid row. The state keeps the caller's own key order."""

    id: str
    state: object
    question: str
    options: tuple[Option, ...]

    @property
    def option_ids(self) -> list[str]:
        """The option ids in the caller's order."""
        return [option.id for option in self.options]


def parse_row(fields: Mapping[str, object], *, state_is_checked: bool = False) -> Row:
    """Return the row that *fields* describe, further keys ignored; raises InvalidRequest for the first broken rule.

    *state_is_checked* spares rows that share a state, which may be large, all checks of it but the first.
    """
    missing = [name for name in _FIELDS if name not in fields]
    if missing:
        raise InvalidRequest(f"Row is missing fields: {missing}")
    identifier, question = fields["id"], fields["question"]
    if not (isinstance(identifier, str) and identifier and isinstance(question, str) and question):
        raise InvalidRequest("id and question must be nonempty strings")
    state = fields["state"]
    if not state_is_checked:
        check_state(state)
    return Row(id=identifier, state=state, question=question, options=_parse_options(fields["options"]))


def check_state(state: object) -> None:
    """Raise InvalidRequest unless *state* is a nonempty string, object or array of finite JSON values."""
    if not isinstance(state, str | dict | list) or not state:
        raise InvalidRequest("state must be a nonempty string, object, or array")
    try:
        json.dumps(state, ensure_ascii=False, allow_nan=False)
    except (TypeError, ValueError, RecursionError):
        raise InvalidRequest("state must be finite JSON-compatible data") from None


def _parse_options(options: object) -> tuple[Option, ...]:
    if not isinstance(options, list) or not FEWEST_OPTIONS <= len(options) <= MOST_OPTIONS:
        raise InvalidRequest(f"options must contain {FEWEST_OPTIONS}-{MOST_OPTIONS} entries")
    parsed = tuple(_parse_option(option) for option in options)
    if len({option.id for option in parsed}) != len(parsed):
        raise InvalidRequest("Option IDs must be unique")
    return parsed


def _parse_option(option: object) -> Option:
    if isinstance(option, dict):
        identifier, description = option.get("id"), option.get("description")
        if isinstance(identifier, str) and isinstance(description, str):
            return Option(id=identifier, description=description)
    raise InvalidRequest("Each option needs string id and description fields")
