"""JSON as one text, so that equal values have equal digests.

It is Python's `json.dumps` with sorted keys, compact separators and ASCII escaping, and not RFC 8785: floats, large
exponents and keys outside ASCII come out differently there.
"""

from __future__ import annotations

import json

from steelyard.hall.digests import sha256_of_text


def canonical_json(value: object) -> str:
    """Return the canonical text of a JSON *value*; raises ValueError for NaN and infinity, TypeError for no JSON."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)


def sha256_of_json(value: object) -> str:
    """Return the SHA-256 of *value*'s canonical text."""
    return sha256_of_text(canonical_json(value))
