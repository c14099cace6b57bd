"""What every tier uses: Hypothesis without deadlines, since the machine is shared, and real weights on request."""

from __future__ import annotations

import functools
import gc
import importlib
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings

from steelyard.models import catalogue, fetch, store
from steelyard.models.progress import SilentReport
from steelyard.models.pull import Sources, pull_model

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import ModuleType

    from tests.databases import Databases
    from tests.postgres import Cluster

    from steelyard.hub.db.database import Database

STAND_INS = Path(__file__).parent / "stand_ins"

# Routes, models and modules live as long as the session; to look through all of them as often as Python does by itself
# takes a sixth of a run. A test that needs garbage to be gone collects it.
gc.set_threshold(100_000, 50, 100)
settings.register_profile("steelyard", deadline=None)
settings.load_profile("steelyard")


@pytest.fixture(scope="session")
def weights() -> Callable[[str], Path]:
    """Give the path of a model's main file; all its files are verified, and pulled where they are missing."""

    @functools.cache
    def path_of(name: str) -> Path:
        sources = Sources(fetch.endpoint_of(os.environ))
        directory = store.models_dir(os.environ)
        return pull_model(catalogue.require(name), directory=directory, sources=sources, report=SilentReport())

    return path_of


@pytest.fixture(scope="session")
def converted_dir(tmp_path_factory) -> Path:
    """Where this session keeps what it dequantised."""
    folder: Path = tmp_path_factory.mktemp("converted")
    return folder


@pytest.fixture(scope="session")
def tiny_folder(tmp_path_factory) -> Callable[[str], Path]:
    """Give the folder of a tiny model, written once."""
    from tests.tiny_models import save  # noqa: PLC0415  # It imports torch, which takes seconds.

    folders: dict[str, Path] = {}

    def folder_of(name: str) -> Path:
        if name not in folders:
            folders[name] = save(name, tmp_path_factory.mktemp(name))
        return folders[name]

    return folder_of


@pytest.fixture(scope="session")
def postgres() -> Iterator[Cluster]:
    """Give a PostgreSQL of the session's own. Where none can be started its tests fail: they are never skipped."""
    from tests.postgres import Cluster  # noqa: PLC0415  # Most sessions need no database driver.

    cluster = Cluster()
    yield cluster
    cluster.stop()


@pytest.fixture(scope="session")
def sqlite_databases(tmp_path_factory) -> Databases:
    """Give fresh SQLite databases."""
    from tests.databases import SqliteDatabases  # noqa: PLC0415

    return SqliteDatabases(tmp_path_factory.mktemp("sqlite"))


@pytest.fixture(scope="session")
def postgresql_databases(postgres) -> Databases:
    """Give fresh PostgreSQL databases."""
    from tests.databases import PostgresqlDatabases  # noqa: PLC0415

    return PostgresqlDatabases(postgres)


@pytest.fixture(params=["sqlite", "postgresql"])
def databases(request) -> Databases:
    """Give fresh databases of each kind in turn: what asks for this runs on both."""
    source: Databases = request.getfixturevalue(f"{request.param}_databases")
    return source


@pytest.fixture
def empty_url(databases) -> Iterator[str]:
    """Give the URL of a database without tables; of SQLite, whose file is not there yet."""
    with databases.fresh(is_migrated=False) as url:
        yield url


@pytest.fixture
def database_url(databases) -> Iterator[str]:
    """Give the URL of a database with every table and no row of anybody's."""
    with databases.fresh() as url:
        yield url


@pytest.fixture
def database(database_url) -> Iterator[Database]:
    """Give an open database with every table, SQLite and PostgreSQL in turn: every test of the store asks for this."""
    from steelyard.hub.db.database import Database  # noqa: PLC0415

    database = Database(database_url)
    yield database
    database.close()


@pytest.fixture
def semif(monkeypatch) -> Iterator[ModuleType]:
    """Install the stand-in for SemIf's package for one test, and give its `direct`, which notes every call."""
    monkeypatch.syspath_prepend(STAND_INS)
    names = ("semif_phase1", "semif_phase1.direct", "semif_phase1.shared")
    modules = {name: importlib.import_module(name) for name in names}
    yield modules["semif_phase1.direct"]
    for name in names:
        sys.modules.pop(name, None)
