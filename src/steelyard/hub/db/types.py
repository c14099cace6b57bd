"""Column types that keep a promise on both databases."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from sqlalchemy import BigInteger, DateTime, Integer, Text
from sqlalchemy.types import TypeDecorator

from steelyard.hall.canonical import canonical_json

if TYPE_CHECKING:
    from sqlalchemy import Dialect

# Row ids that are never used twice; SQLite counts up only an INTEGER PRIMARY KEY.
RowId = BigInteger().with_variant(Integer(), "sqlite")


class UtcTime(TypeDecorator[datetime]):
    """A moment in UTC to the microsecond; refuses a naive one with ValueError.

    SQLite keeps no zone, so what comes back from it gets UTC again.
    """

    impl = DateTime(timezone=True)
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> Any:  # noqa: ARG002
        """Return *value* in UTC."""
        if value is None:
            return None
        if value.tzinfo is None:
            raise ValueError("A time without a zone cannot be stored")
        return value.astimezone(UTC)

    def process_result_value(self, value: datetime | None, dialect: Dialect) -> datetime | None:  # noqa: ARG002
        """Return the stored moment with its zone."""
        if value is None:
            return None
        return value.astimezone(UTC) if value.tzinfo else value.replace(tzinfo=UTC)


class JsonText(TypeDecorator[Any]):
    """A JSON value, kept as its canonical text so that its digest can be computed again on either database."""

    impl = Text
    cache_ok = True

    def process_bind_param(self, value: object, dialect: Dialect) -> str | None:  # noqa: ARG002
        """Return the canonical text of *value*."""
        return None if value is None else canonical_json(value)

    def process_result_value(self, value: str | None, dialect: Dialect) -> Any:  # noqa: ARG002
        """Return the value of the stored text."""
        return None if value is None else json.loads(value)
