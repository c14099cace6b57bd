"""Drafts a migration: writes what leads from the newest one to `tables`, for you to read and correct.

    python -m tests.draft_migration 20261215_0002 "Keep comparisons"
    python -m tests.draft_migration --first        # write the first one anew, which only an unpublished one may be

A published migration is never written again: `tests/golden/migrations.json` has its digest.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from alembic.autogenerate import produce_migrations, render_python_code
from alembic.migration import MigrationContext

from steelyard.hub.db import migrate
from steelyard.hub.db.database import Database
from steelyard.hub.db.tables import metadata
from steelyard.hub.db.types import JsonText, UtcTime

if TYPE_CHECKING:
    from alembic.autogenerate.api import AutogenContext

GOLDEN = Path(__file__).parent / "golden" / "migrations.json"
FIRST = ("20261130_0001", "The hub's first tables")
_TEMPLATE = '''"""{title}."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "{revision}"
down_revision = {below!r}
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Make the change."""
    {up}


def downgrade() -> None:
    """Take it back."""
    {down}
'''


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("revision", nargs="?", help="YYYYMMDD_NNNN")
    parser.add_argument("title", nargs="?")
    parser.add_argument("--first", action="store_true")
    parser.add_argument("--digests", action="store_true", help="only write the golden digests anew")
    chosen = parser.parse_args()
    if not chosen.digests:
        revision, title = FIRST if chosen.first else (chosen.revision, chosen.title)
        if not re.fullmatch(r"\d{8}_\d{4}", revision or "") or not title:
            parser.error("give a revision such as 20261215_0002 and a title")
        _write(revision, title, is_first=chosen.first)
        migrate.graph.cache_clear()
        migrate._scripts.cache_clear()
    GOLDEN.write_text(json.dumps(dict(migrate.graph().digests), indent=2) + "\n", encoding="utf-8")


def _write(revision: str, title: str, *, is_first: bool) -> None:
    path = migrate.FOLDER / "versions" / f"r{revision}.py"
    if is_first:
        path.unlink(missing_ok=True)
    below = None if is_first else migrate.graph().head
    up, down = _difference(is_first=is_first)
    content = _TEMPLATE.format(title=title, revision=revision, below=below, up=up, down=down)
    path.write_text(content, encoding="utf-8")
    for command in (("format", "--quiet"), ("check", "--quiet", "--fix"), ("format", "--quiet")):
        subprocess.run([str(Path(sys.executable).parent / "ruff"), *command, str(path)], check=True)
    sys.stdout.write(f"{path}\n")


def _difference(*, is_first: bool) -> tuple[str, str]:
    """Return the code that leads from the newest migration, or from nothing, to `tables`, and back."""
    with tempfile.TemporaryDirectory() as folder:
        database = Database(f"sqlite:///{folder}/draft.db")
        database.make_file()
        if not is_first:
            migrate.upgrade(database)
        with database.alter() as connection:
            options: dict[str, Any] = {
                "target_metadata": metadata,
                "include_name": lambda name, kind, _parents: kind != "table" or name != "alembic_version",
                "render_as_batch": not is_first,
            }
            script = produce_migrations(MigrationContext.configure(connection, opts=options), metadata)
        database.close()
    assert script.upgrade_ops is not None
    assert script.downgrade_ops is not None
    rendered = [
        render_python_code(ops, render_as_batch=not is_first, render_item=_frozen)
        for ops in (script.upgrade_ops, script.downgrade_ops)
    ]
    up, down = (re.sub(r"\s*# ###.*", "", code) for code in rendered)
    return up, down


def _frozen(kind: str, item: Any, _context: AutogenContext) -> str | Literal[False]:
    """Write our own types as SQLAlchemy's, so that no later change of ours changes an old migration."""
    if kind == "type" and isinstance(item, UtcTime):
        return "sa.DateTime(timezone=True)"
    if kind == "type" and isinstance(item, JsonText):
        return "sa.Text()"
    return False


if __name__ == "__main__":
    main()
