"""The claim token: 256 random bits, given once; of it the hub keeps its hash."""

from __future__ import annotations

import secrets

from steelyard.hall.digests import has_sha256, sha256_of_text

PREFIX = "steelyard_claim_"  # By which a scanner finds one where it must not be.


def new_token() -> str:
    """Return a token that nobody has."""
    return PREFIX + secrets.token_urlsafe(32)


def token_sha256(token: str) -> str:
    """Return what is kept of a token."""
    return sha256_of_text(token)


def is_token(token: str, *, kept_sha256: str | None) -> bool:
    """Tell whether *token* is the one with this hash; nothing is where none was given or its hash was cleared."""
    return has_sha256(token, kept_sha256=kept_sha256)
