"""Rows of our own, as long in tokens as a measurement needs; their evidence is a depot's diary."""

from __future__ import annotations

from typing import TYPE_CHECKING

from steelyard.decide.domain.errors import InvalidRequest
from steelyard.decide.domain.prompt import messages_of
from steelyard.decide.domain.rows import Option, Row

if TYPE_CHECKING:
    from collections.abc import Callable

    from steelyard.decide.domain.ports import Tokenizer

CRITERIA = 21
_OPTIONS = (Option(id="yes", description="Yes"), Option(id="no", description="No"))
_FEWEST_CHARACTERS_A_SENTENCE = 40


def rows_over(state: str) -> list[Row]:
    """Return the 21 binary rows over *state*."""
    return [_row(state, day) for day in range(1, CRITERIA + 1)]


def state_for(tokenizer: Tokenizer, *, prompt_tokens: int) -> str:
    """Return the evidence with which the last of `rows_over` has *prompt_tokens*, or the few fewer that letters allow.

    Raises InvalidRequest where even one letter of evidence is too much.
    """

    def length(characters: int) -> int:
        return count_tokens(_row(diary(characters), CRITERIA), tokenizer=tokenizer)

    characters = longest(length, limit=prompt_tokens)
    if characters == 0:
        raise InvalidRequest("the limit of input tokens leaves no room for evidence; raise --max-tokens")
    return diary(characters)


def count_tokens(row: Row, *, tokenizer: Tokenizer) -> int:
    """Return how many tokens the prompt of *row* has."""
    return len(tokenizer.encode(tokenizer.render(messages_of(row))))


def longest(length: Callable[[int], int], *, limit: int) -> int:
    """Return an n with length(n) <= limit < length(n + 1), found by bisection; 0 where length(1) is over the limit.

    *length* grows without bound but need not grow at every step: half a word may have more tokens than the whole.
    """
    fits, over = 0, 1
    while length(over) <= limit:
        fits, over = over, 2 * over
    while over - fits > 1:
        middle = (fits + over) // 2
        fits, over = (middle, over) if length(middle) <= limit else (fits, middle)
    return fits


def diary(characters: int) -> str:
    """Return the first *characters* of a depot's diary that has no end."""
    days = range(1, characters // _FEWEST_CHARACTERS_A_SENTENCE + 2)
    text = "".join(f"On day {day} the depot sent {7 * day % 40} parcels and took {3 * day % 11} back. " for day in days)
    return text[:characters]


def _row(state: str, day: int) -> Row:
    question = f"Did the depot send more than {day} parcels on day {day}?"
    return Row(id=f"q{day}", state=state, question=question, options=_OPTIONS)
