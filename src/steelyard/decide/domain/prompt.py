"""The prompt `direct-options-v1`: its messages, and its tokens with every check that precedes a forward pass.

The prompt and its checks are those of SemIf (MIT), package `semif_phase1` at `SEMIF_COMMIT`: equal rows give equal
bytes, so hashes compare across both.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

from steelyard.decide.domain.errors import InvalidRequest
from steelyard.decide.domain.ports import Message
from steelyard.hall.digests import sha256_of_text
from steelyard.hall.texts import shorten

if TYPE_CHECKING:
    from steelyard.decide.domain.ports import Tokenizer
    from steelyard.decide.domain.rows import Row

SEMIF_COMMIT = "23cf1f39fc9534fe81437200959b6dfc7106e45a"
PROMPT_VERSION = "direct-options-v1"
LETTERS = "ABCDEFGHIJKLMNOP"
SYSTEM = (
    "Apply the supplied criterion to the supplied evidence. Choose exactly one listed option. Respond with only "
    "its uppercase letter, with no explanation or reasoning."
)


@dataclass(frozen=True)
class Prompt:
    """One row, ready for the model: *tokens* of the whole prompt, and in *slots* the token of each option's letter."""

    row: Row
    text: str
    sha256: str
    tokens: list[int]
    slots: list[int]


def messages_of(row: Row) -> list[Message]:
    """Return the system and the user message for *row*."""
    return [Message(role="system", content=SYSTEM), Message(role="user", content=_user_content(row))]


def encode_row(row: Row, *, tokenizer: Tokenizer, max_tokens: int) -> Prompt:
    """Return the prompt of *row*; raises InvalidRequest where it is too long or an answer slot is ambiguous."""
    text = tokenizer.render(messages_of(row))
    try:
        sha256 = sha256_of_text(text)
    except UnicodeEncodeError:
        raise InvalidRequest(f"Row {shorten(row.id)}: text holds a lone surrogate, which UTF-8 cannot carry") from None
    tokens = tokenizer.encode(text)
    if len(tokens) > max_tokens:
        raise InvalidRequest(
            f"Row {shorten(row.id)}: {len(tokens)} input tokens exceed limit {max_tokens}; no truncation allowed"
        )
    slots = _answer_slots(len(row.options), tokenizer=tokenizer)
    _check_boundary(text, tokens, slots, tokenizer)
    return Prompt(row=row, text=text, sha256=sha256, tokens=tokens, slots=slots)


def evidence_end(prompt: Prompt) -> int | None:
    """Return where in the prompt's text the serialised evidence ends; None where the template rewrote the message."""
    start = prompt.text.find(_user_content(prompt.row))
    return None if start < 0 else start + len('{"evidence": ') + len(serialise(prompt.row.state))


def _user_content(row: Row) -> str:
    options = [
        {"letter": letter, "description": option.description}
        for letter, option in zip(LETTERS, row.options, strict=False)
    ]
    return serialise({"evidence": row.state, "criterion": row.question, "options": options})


def serialise(value: object) -> str:
    """Return *value* as the prompt shows it: Python's default separators, the caller's key order, no escapes."""
    return json.dumps(value, ensure_ascii=False)


def _answer_slots(count: int, *, tokenizer: Tokenizer) -> list[int]:
    slots = [_answer_slot(letter, tokenizer) for letter in LETTERS[:count]]
    if len(set(slots)) != count:
        raise InvalidRequest("Answer-slot tokens collide")
    return slots


def _answer_slot(letter: str, tokenizer: Tokenizer) -> int:
    tokens = tokenizer.encode(letter)
    if len(tokens) != 1 or tokenizer.decode(tokens) != letter:
        raise InvalidRequest(f"Answer slot {letter!r} is not one exact round-trip token")
    return tokens[0]


def _check_boundary(text: str, tokens: list[int], slots: list[int], tokenizer: Tokenizer) -> None:
    """Raise InvalidRequest unless every letter, appended to the prompt, adds its own token and changes none before."""
    for letter, slot in zip(LETTERS, slots, strict=False):
        if tokenizer.encode(text + letter) != [*tokens, slot]:
            raise InvalidRequest(f"Answer boundary changes tokenization for slot {letter}")
