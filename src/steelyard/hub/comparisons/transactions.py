"""How the edge opens a transaction for a call on comparisons, and commits what a refused one has found out."""

from __future__ import annotations

import logging
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from steelyard.hub.comparisons import store
from steelyard.hub.comparisons.service import Comparisons
from steelyard.hub.db import epoch
from steelyard.hub.db.errors import StoreError
from steelyard.hub.principal import HUB

if TYPE_CHECKING:
    from collections.abc import Callable

    from steelyard.hub.db.database import Database
    from steelyard.hub.principal import Actor

logger = logging.getLogger("steelyard.hub")
T = TypeVar("T")


def settled(database: Database, actor: Actor, act: Callable[[Comparisons], T]) -> T:
    """Return what *act* returns, once all that it wrote is committed; a refusal in it is for the caller to raise."""
    with database.write() as connection:
        return act(Comparisons(connection, actor, lambda: database.now(connection)))


def reconcile_expired(database: Database) -> None:
    """Interrupt every comparison whose claim has expired, each in a transaction of its own."""
    with database.read() as connection:
        ids = store.expired(connection, now=database.now(connection))
    for comparison_id in ids:
        settled(database, HUB, partial(Comparisons.reconcile, comparison_id=comparison_id))


def count_beat(database: Database) -> None:
    """Make a copy of the database from before a claim tell as older than what this hub has now."""
    try:
        epoch.beat(database)
    except StoreError as error:  # The claim is given all the same; the hub's next beat will tell.
        logger.warning("The store's beat after a claim failed: %s", error)
