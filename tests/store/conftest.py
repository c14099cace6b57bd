"""Databases without tables, and migrations beyond those that there are."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import pytest

from steelyard.hub.db import migrate
from steelyard.hub.db.database import Database

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

LATER = '''"""A migration of the tests' own."""

import sqlalchemy as sa
from alembic import op

revision = {revision!r}
down_revision = {below!r}


def upgrade() -> None:
    {up}


def downgrade() -> None:
    {down}
'''


@pytest.fixture
def empty(empty_url) -> Iterator[Database]:
    """Give a database without tables."""
    database = Database(empty_url)
    yield database
    database.close()


@pytest.fixture
def migrations(tmp_path, monkeypatch) -> Iterator[Path]:
    """Let the migrations be a copy, which a test may change, and give its folder."""
    folder = tmp_path / "migrations"
    shutil.copytree(migrate.FOLDER, folder, ignore=shutil.ignore_patterns("__pycache__"))
    monkeypatch.setattr(migrate, "FOLDER", folder)
    forget()
    yield folder
    monkeypatch.undo()
    forget()


@pytest.fixture
def add_migration(migrations) -> Callable[..., str]:
    """Add a migration after the newest, and give its revision."""

    def add(up: str = "pass", down: str = "pass") -> str:
        below = migrate.graph().head
        revision = f"20990101_{int(below[-4:]) + 1:04}"
        path = migrations / "versions" / f"r{revision}.py"
        path.write_text(LATER.format(revision=revision, below=below, up=up, down=down), encoding="utf-8")
        forget()
        return revision

    return add


def forget() -> None:
    """Read the migrations anew."""
    migrate.graph.cache_clear()
    migrate._scripts.cache_clear()
