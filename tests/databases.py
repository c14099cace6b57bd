"""Fresh databases, each a copy of one that was migrated once."""

from __future__ import annotations

import functools
import shutil
import uuid
from contextlib import contextmanager
from typing import TYPE_CHECKING, Protocol

from steelyard.hub.db import migrate
from steelyard.hub.db.database import Database

if TYPE_CHECKING:
    from collections.abc import Iterator
    from contextlib import AbstractContextManager
    from pathlib import Path

    from tests.postgres import Cluster


class Databases(Protocol):
    """Makes databases of one kind."""

    kind: str

    def fresh(self, *, is_migrated: bool = True) -> AbstractContextManager[str]:
        """Give the URL of a new database and remove it afterwards."""
        ...


class SqliteDatabases:
    """Files in *folder*."""

    kind = "sqlite"

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    @contextmanager
    def fresh(self, *, is_migrated: bool = True) -> Iterator[str]:
        folder = self._folder / uuid.uuid4().hex
        folder.mkdir()
        if is_migrated:
            shutil.copyfile(self._template, folder / "hub.db")
        yield f"sqlite:///{folder / 'hub.db'}"
        shutil.rmtree(folder)

    @functools.cached_property
    def _template(self) -> Path:
        path = self._folder / "template.db"
        _migrate(f"sqlite:///{path}")
        return path


class PostgresqlDatabases:
    """Databases in *cluster*."""

    kind = "postgresql"

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    @contextmanager
    def fresh(self, *, is_migrated: bool = True) -> Iterator[str]:
        name = f"hub_{uuid.uuid4().hex}"
        yield self._cluster.create(name, template=self._template if is_migrated else "template0")
        self._cluster.drop(name)

    @functools.cached_property
    def _template(self) -> str:
        _migrate(self._cluster.create("migrated"))
        return "migrated"


def _migrate(url: str) -> None:
    database = Database(url)
    migrate.upgrade(database)
    database.close()
