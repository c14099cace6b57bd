"""The patterns of texts in requests, and what a text that does not match one is told."""

from __future__ import annotations

WITHOUT_NUL = r"^[^\u0000]*$"  # PostgreSQL cannot store one.
SLUG = r"^[a-z0-9]([a-z0-9.-]{0,62}[a-z0-9])?$"
# No control characters, and nothing that is invisible or turns the direction of a line: names stand in lists and pages,
# where they must not look like something else.
NAME = r"^[^\u0000-\u001f\u007f-\u009f\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff]+$"
SHA256 = r"^[0-9a-f]{64}$"
REQUEST_ID = r"^[0-9a-f]{32}$"
IDEMPOTENCY_KEY = r"^[ -~]{8,128}$"
ERROR_CODE = r"^[A-Z][A-Z0-9_]{0,63}$"
CASE_KEY = r"^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$"
# What a text that does not match is told, since a pattern is for machines.
RULE_OF_PATTERN = {
    WITHOUT_NUL: "holds a NUL character, which cannot be stored",
    SLUG: "must be 1 to 64 of a-z, 0-9, dot and hyphen, and neither begin nor end with a dot or hyphen",
    NAME: "holds a control character or an invisible one",
    SHA256: "must be a SHA-256 as 64 lowercase hexadecimal digits",
    REQUEST_ID: "must be a request's public id: the 32 hexadecimal digits of an answer's x-request-id",
    IDEMPOTENCY_KEY: "must be 8 to 128 printable ASCII characters",
    ERROR_CODE: "must be 1 to 64 of A-Z, 0-9 and _, a letter first",
    CASE_KEY: "must be a case's UUID in lowercase, with its hyphens",
}
