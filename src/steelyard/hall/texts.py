"""Texts that quote other people's input."""

from __future__ import annotations


def shorten(text: str, *, limit: int = 64) -> str:
    """Return *text*, cut to *limit* characters with an ellipsis; control characters and lone surrogates are escaped.

    Messages and logs quote at most such a short piece of what a caller sent.
    """
    piece = text if len(text) <= limit else text[: limit - 1] + "…"
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in piece)
