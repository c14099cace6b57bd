"""Pieces of messages, some of which quote other people's input."""

from __future__ import annotations

from pathlib import PurePath


def shorten(text: str, *, limit: int = 64) -> str:
    """Return *text*, cut to *limit* characters with an ellipsis; control characters and lone surrogates are escaped.

    Messages and logs quote at most such a short piece of what a caller sent.
    """
    piece = text if len(text) <= limit else text[: limit - 1] + "…"
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in piece)


def plural(count: int, noun: str) -> str:
    """Return a count and what is counted."""
    return f"{count} {noun}{'s'[: count != 1]}"


def without_folder(text: str) -> str:
    """Return the last part of *text* where it is a path: where a file lies is its machine's own business.

    One slash alone makes no path, for hub ids have one.
    """
    path = PurePath(text)
    is_path = path.is_absolute() or path.suffix.lower() == ".gguf" or text[:1] in (".", "~") or text.count("/") > 1
    return (path.name if is_path else "") or text
