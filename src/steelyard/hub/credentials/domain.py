"""Secrets: how they are made, what of them is kept, and how a sent one is told from a guess.

A secret is `steelyard_<role>_<public id>_<43 characters for 256 random bits><6 for a CRC32>`, all of it base 62: a
scanner can find one in a text, and a mistyped one is noticed before the database is asked.
"""

from __future__ import annotations

import re
import secrets
import zlib
from dataclasses import dataclass
from datetime import datetime
from typing import get_args
from uuid import UUID

from steelyard.hall.digests import has_sha256, sha256_of_text
from steelyard.hub.principal import Role

_DIGITS = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
_PUBLIC_ID_LENGTH = 12
_RANDOM_LENGTH = 43  # 62**43 > 2**256.
_CRC_LENGTH = 6  # 62**6 > 2**32.
_SECRET = re.compile(
    rf"steelyard_({'|'.join(get_args(Role))})_([0-9A-Za-z]{{{_PUBLIC_ID_LENGTH}}})_"
    rf"[0-9A-Za-z]{{{_RANDOM_LENGTH}}}([0-9A-Za-z]{{{_CRC_LENGTH}}})"
)
MOST_LIVE_SECRETS = 2


@dataclass(frozen=True, kw_only=True)
class Credential:
    """A secret as the hub keeps it: its public id and its hash, never itself."""

    id: UUID
    public_id: str
    role: Role
    name: str
    service_client_id: UUID | None
    created_at: datetime
    revoked_at: datetime | None


@dataclass(frozen=True)
class NewSecret:
    """A secret just made; *text* is shown once."""

    public_id: str
    text: str

    @property
    def sha256(self) -> str:
        """What is stored of it."""
        return sha256_of_secret(self.text)


def new_secret(role: Role) -> NewSecret:
    """Return a secret that nobody has."""
    public_id = "".join(secrets.choice(_DIGITS) for _ in range(_PUBLIC_ID_LENGTH))
    head = f"steelyard_{role}_{public_id}_{_base62(secrets.randbits(256), _RANDOM_LENGTH)}"
    return NewSecret(public_id=public_id, text=head + _crc_of(head))


def public_id_of(sent: str) -> str | None:
    """Return the public id in *sent*, or None where it has not the form of a secret or its CRC does not fit."""
    match = _SECRET.fullmatch(sent)
    if match is None or _crc_of(sent[:-_CRC_LENGTH]) != match[3]:
        return None
    return match[2]


def public_id_in(text: str) -> str:
    """Return the public id in *text*, a whole secret, or one that is cut short; *text* itself where it is none."""
    parts = text.strip().split("_")
    return parts[2] if parts[0] == "steelyard" and len(parts) > 2 else text.strip()


def sha256_of_secret(text: str) -> str:
    """Return the lowercase SHA-256 of a secret: with 256 random bits in it, no slower hash is needed."""
    return sha256_of_text(text)


def is_secret(sent: str, *, stored_sha256: str | None) -> bool:
    """Tell whether *sent* is the secret with this hash; without one it compares all the same and says no."""
    return has_sha256(sent, kept_sha256=stored_sha256)


def _crc_of(head: str) -> str:
    return _base62(zlib.crc32(head.encode("ascii")), _CRC_LENGTH)


def _base62(number: int, length: int) -> str:
    digits = []
    for _ in range(length):
        number, digit = divmod(number, len(_DIGITS))
        digits.append(_DIGITS[digit])
    return "".join(reversed(digits))
