"""JSON as one text, so that equal values have equal digests.

It is Python's `json.dumps` with sorted keys, compact separators and ASCII escaping, and not RFC 8785: floats, large
exponents and keys outside ASCII come out differently there. `docs/digests.json` has test vectors for other languages.
"""

from __future__ import annotations

import json
import math

from steelyard.hall.digests import sha256_of_text

MOST_JSON_DEPTH = 16
_LARGEST_EXACT_INTEGER = 2**53 - 1  # Beyond it, a language whose numbers are doubles reads another integer.


def canonical_json(value: object) -> str:
    """Return the canonical text of a JSON *value*; raises ValueError for NaN and infinity, TypeError for no JSON."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)


def sha256_of_json(value: object) -> str:
    """Return the SHA-256 of *value*'s canonical text."""
    return sha256_of_text(canonical_json(value))


def require_plain_json(value: object, *, depth: int = MOST_JSON_DEPTH) -> None:
    """Raise ValueError, in words, unless every language reads *value* alike: what is digested must pass here first.

    It consists of objects with names, arrays, texts without NUL, booleans, nulls, finite floats and integers of at
    most 53 bits, in at most *depth* levels.
    """
    if depth < 1:
        raise ValueError(f"is nested more than {MOST_JSON_DEPTH} levels deep")
    if isinstance(value, dict):
        for name, item in value.items():
            _require_text(name)
            require_plain_json(item, depth=depth - 1)
    elif isinstance(value, list):
        for item in value:
            require_plain_json(item, depth=depth - 1)
    elif not isinstance(value, bool | None):
        _require_scalar(value)


def _require_scalar(value: object) -> None:
    if isinstance(value, float):
        if not math.isfinite(value):
            raise ValueError("holds NaN, an infinity or a number too large for a double")
    elif isinstance(value, int):
        if abs(value) > _LARGEST_EXACT_INTEGER:
            raise ValueError("holds an integer of more than 53 bits, which not every language reads exactly")
    else:
        _require_text(value)


def _require_text(value: object) -> None:
    if not isinstance(value, str):
        raise ValueError("holds something that is no JSON")  # noqa: TRY004  # Every breach is a ValueError.
    if "\x00" in value:
        raise ValueError("holds a NUL character")
    try:
        value.encode("utf-8")
    except UnicodeEncodeError:
        raise ValueError("holds a lone surrogate, which no UTF-8 text can carry") from None
