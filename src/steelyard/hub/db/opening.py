"""How a process begins to use the store: the schema is this version's, and a restore has been noticed."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from steelyard.hub.db import epoch, migrate
from steelyard.hub.db.database import Database

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sqlalchemy import URL

logger = logging.getLogger("steelyard.hub")


def open_store(url: str | URL, *, is_upgraded: bool, on_restored: Sequence[epoch.Hook] = ()) -> Database:
    """Return the database at *url*, upgraded first if asked.

    Raises a StoreError: a schema that is not this version's is refused with what to do. Where the database was
    restored, that is recorded, and *on_restored* runs in the same transaction.
    """
    database = Database(url)
    try:
        if is_upgraded:
            for revision in migrate.upgrade(database):
                logger.info("The database is now at revision %s", revision)
        migrate.require_current(database)
        reason = epoch.begin(database, on_restored=on_restored)
    except BaseException:
        database.close()
        raise
    if reason is not None:
        logger.warning("The database was restored since it was last used: %s. A new epoch begins", reason)
    return database
