"""Inputs over the model's length: whether one was cut, and whether that is allowed.

A runtime says what it makes of them (`on_overlong`):

    refuses     it answers an error, so a success was not cut: text-embeddings-inference, vLLM, llama.cpp
    reports     it cuts only when asked, and its answer lists the inputs that it cut: `steelyard embed serve`
    truncates   it cuts silently: infinity, Ollama. Its count of tokens and the texts' bytes then bound what it did

"""

from __future__ import annotations

import re
import unicodedata
from typing import TYPE_CHECKING

from steelyard.hub.gateway.domain.errors import InputTruncated, TruncationUnknown

if TYPE_CHECKING:
    from collections.abc import Sequence

    from steelyard.hub.gateway.domain.answers import Answer

# What a tokenizer adds at the ends of a text; some servers count these tokens and some do not.
_ADDED_TOKENS = 8
# How servers say that a text is too long: text-embeddings-inference (413, "must have less than 512 tokens"), vLLM and
# OpenAI (400, "maximum context length"), Ollama (400, "exceeds the context length"), llama.cpp (500, "too large to
# process"; 400, "exceed_context_size_error"), `steelyard embed serve` (422, "input_too_long").
_TOO_LONG = re.compile(
    rb"input_too_long|must have less than \d+ tokens|maximum context length|maximum model length"
    rb"|exceeds? (?:the )?(?:maximum |available )?context (?:length|size)|exceed_context_size|too large to process"
)
_READ_BYTES = 4096


def speaks_of_length(body: bytes) -> bool:
    """Tell whether an embedding server's error, of which the beginning is read, is about a text's length."""
    return _TOO_LONG.search(body[:_READ_BYTES]) is not None


def was_truncated(answer: Answer, *, texts: Sequence[str], on_overlong: str, max_length: int) -> bool | None:
    """Tell whether any of *texts* was cut on its way into *answer*; None where that cannot be told."""
    if on_overlong == "refuses":
        return False
    if on_overlong == "reports":
        return None if answer.truncated is None else bool(answer.truncated)
    return _was_silently_truncated(answer.tokens, texts=texts, max_length=max_length)


def check_truncation(is_truncated: bool | None, *, allows_truncation: bool) -> None:
    """Raise InputTruncated or TruncationUnknown where the deployment does not allow it."""
    if allows_truncation or is_truncated is False:
        return
    raise TruncationUnknown if is_truncated is None else InputTruncated


def _was_silently_truncated(tokens: int | None, *, texts: Sequence[str], max_length: int) -> bool | None:
    if all(_most_tokens(text) < max_length for text in texts):
        return False
    if tokens is None:
        return None
    if tokens >= max_length * len(texts):  # Then each has as many as a cut one has left.
        return True
    # The others have a token each at least, so no text has more than the rest; a cut one may be counted without ends.
    most_of_one = tokens - (len(texts) - 1)
    return False if most_of_one < max_length - _ADDED_TOKENS else None


def _most_tokens(text: str) -> int:
    """Return a bound on a text's tokens: each takes a byte at least, of the text as written or as it is normalised."""
    forms = (text, unicodedata.normalize("NFKD", text.lower()))
    return max(len(form.encode("utf-8")) for form in forms) + _ADDED_TOKENS
