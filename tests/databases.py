"""Fresh databases, each a copy of one that was migrated once."""

from __future__ import annotations

import functools
import shutil
import uuid
from contextlib import contextmanager
from typing import TYPE_CHECKING, Protocol, TypeVar

from steelyard.hub.db import migrate
from steelyard.hub.db.database import Database

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager
    from pathlib import Path

    from tests.postgres import Cluster

T = TypeVar("T")


class Databases(Protocol):
    """Makes databases of one kind."""

    kind: str

    def fresh(self, *, is_migrated: bool = True) -> AbstractContextManager[str]:
        """Give the URL of a new database and remove it afterwards."""
        ...

    def copy_of(self, fill: Callable[[str], T]) -> AbstractContextManager[tuple[str, T]]:
        """Give the URL of a copy of a database that *fill* has filled once, and what it returned then."""
        ...


class SqliteDatabases:
    """Files in *folder*."""

    kind = "sqlite"

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    @contextmanager
    def fresh(self, *, is_migrated: bool = True) -> Iterator[str]:
        with self._copy(self._template if is_migrated else None) as url:
            yield url

    @contextmanager
    def copy_of(self, fill: Callable[[str], T]) -> Iterator[tuple[str, T]]:
        path, returned = self._filled(fill)
        with self._copy(path) as url:
            yield url, returned

    @contextmanager
    def _copy(self, path: Path | None) -> Iterator[str]:
        folder = self._folder / uuid.uuid4().hex
        folder.mkdir()
        if path is not None:
            shutil.copyfile(path, folder / "hub.db")
        yield f"sqlite:///{folder / 'hub.db'}"
        shutil.rmtree(folder)

    @functools.cached_property
    def _template(self) -> Path:
        path = self._folder / "template.db"
        _migrate(f"sqlite:///{path}")
        return path

    @functools.cache  # noqa: B019  # One is made for a session and lives as long.
    def _filled(self, fill: Callable[[str], T]) -> tuple[Path, T]:
        path = self._folder / f"{uuid.uuid4().hex}.db"
        shutil.copyfile(self._template, path)
        returned = fill(f"sqlite:///{path}")
        assert not path.with_name(f"{path.name}-wal").exists(), "the database is still open, so a copy would lack rows"
        return path, returned


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

    @contextmanager
    def copy_of(self, fill: Callable[[str], T]) -> Iterator[tuple[str, T]]:
        template, returned = self._filled(fill)
        name = f"hub_{uuid.uuid4().hex}"
        yield self._cluster.create(name, template=template), returned
        self._cluster.drop(name)

    @functools.cached_property
    def _template(self) -> str:
        _migrate(self._cluster.create("migrated"))
        return "migrated"

    @functools.cache  # noqa: B019  # One is made for a session and lives as long.
    def _filled(self, fill: Callable[[str], T]) -> tuple[str, T]:
        name = f"filled_{uuid.uuid4().hex}"
        return name, fill(self._cluster.create(name, template=self._template))


def _migrate(url: str) -> None:
    database = Database(url)
    migrate.upgrade(database)
    database.close()
