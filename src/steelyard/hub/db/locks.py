"""Locking rows for a change. SQLite has one writer at a time and needs none of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sqlalchemy import Select


def locked(query: Select[Any]) -> Select[Any]:
    """Return *query* with the rows that it finds locked until the transaction ends.

    It is PostgreSQL's FOR NO KEY UPDATE, which lets rows that only refer to these be added meanwhile. Under a FOR
    UPDATE, a new route, which has locked its deployment, would wait for a binding that waits for the same deployment;
    and the gateway, which adds such rows all the time, would wait for every change of the catalogue, or deadlock.
    """
    return query.with_for_update(key_share=True)
