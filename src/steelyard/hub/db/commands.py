"""`steelyard hub db …`: the upkeep of the hub's database. The heavy parts load when a command runs."""

from __future__ import annotations

import os
import re
import sys
from contextlib import closing, contextmanager
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import click

from steelyard.hall.errors import SteelyardError
from steelyard.hall.settings import BadSetting
from steelyard.hub.db.errors import (
    BackupRefused,
    BadDatabaseUrl,
    DowngradeRefused,
    RestoreRefused,
    SchemaRefused,
    StoreCorrupt,
    StoreMissing,
    StoreReadOnly,
    StoreServed,
    StoreUnavailable,
)
from steelyard.hub.settings import TABLE, load_settings
from steelyard.shell.flags import setting_flags
from steelyard.shell.progress import progress_bar
from steelyard.shell.refusals import EXIT_FAILED, EXIT_REFUSED, refusals_as_sentences

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from steelyard.hub.db.database import Database

# What refuses a command, or a start, before anything has changed.
STORE_EXIT_CODES: Mapping[type[SteelyardError], int] = {
    BadDatabaseUrl: EXIT_REFUSED,
    StoreMissing: EXIT_REFUSED,
    SchemaRefused: EXIT_REFUSED,
    DowngradeRefused: EXIT_REFUSED,
    BackupRefused: EXIT_REFUSED,
    RestoreRefused: EXIT_REFUSED,
    StoreServed: EXIT_REFUSED,
}
_EXIT_CODES: Mapping[type[SteelyardError], int] = {
    BadSetting: EXIT_REFUSED,
    **STORE_EXIT_CODES,
    SteelyardError: EXIT_FAILED,
}
_AGE = re.compile(r"([1-9][0-9]{0,4})([dhm])")  # At least a minute: a row of no age is a call under way.
_UNITS = {"d": "days", "h": "hours", "m": "minutes"}
_database_flag = setting_flags(TABLE, names=("database",))


class _Age(click.ParamType[timedelta]):
    """A length of time such as 90d, 12h or 30m."""

    name = "AGE"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> timedelta:
        match = _AGE.fullmatch(str(value))
        if match is None:
            self.fail("write it as 90d, 12h or 30m", param, ctx)
        return timedelta(**{_UNITS[match.group(2)]: int(match.group(1))})


@click.group()
def db() -> None:
    """Keep the hub's database: its schema, its backups, its old rows.

    Exit code of each command: 0 done, 1 it failed, 2 it was refused and nothing has changed, 130 interrupted.
    """


@db.command()
@_database_flag
def upgrade(**flags: str | None) -> None:
    """Bring the schema to this version's, making the database if there is none.

    Everything happens in one transaction. Hubs of the older version must be stopped first. Take a backup before.
    """
    with _database(flags) as database:
        from steelyard.hub.db import migrate  # noqa: PLC0415  # It loads the extra `hub`.

        ran = migrate.upgrade(database)
        click.echo(f"{database.shown} is at revision {migrate.graph().head}, the newest; {_counted(len(ran))} ran.")


@db.command()
@click.argument("revision")
@_database_flag
def downgrade(revision: str, **flags: str | None) -> None:
    """Take the schema back to REVISION, or to `nothing`, which takes away every table.

    It is refused as long as the database has history: requests, audited changes. Restore a backup then.
    """
    with _database(flags) as database:
        from steelyard.hub.db import migrate  # noqa: PLC0415  # It loads the extra `hub`.

        undone = migrate.downgrade(database, to=revision)
        click.echo(f"{database.shown} is at {revision}; {_counted(len(undone))} undone.")


@db.command()
@click.argument("file", type=click.Path(dir_okay=False, path_type=Path))
@click.option("--force", is_flag=True, help="Replace FILE if it is there.")
@_database_flag
def backup(file: Path, *, force: bool, **flags: str | None) -> None:
    """Write a backup of the database to FILE, while hubs serve.

    FILE is one SQLite database whichever database it was taken from, and shows one moment. It holds hashes of
    credentials, names and queries: keep it as you keep the database.
    """
    with _database(flags) as database, _progress("Backing up") as on_progress:
        from steelyard.hub.db.backup import take  # noqa: PLC0415  # It loads the extra `hub`.

        take(database, file, replaces=force, on_progress=on_progress)
    click.echo(f"{file} has the backup, {file.stat().st_size} bytes. Restore it with: steelyard hub db restore {file}")


@db.command()
@click.argument("file", type=click.Path(dir_okay=False, path_type=Path))
@click.option("--force", is_flag=True, help="Replace the data that is there; it is kept aside.")
@_database_flag
def restore(file: Path, *, force: bool, **flags: str | None) -> None:
    """Put the backup FILE in the place of the database. Stop every hub first.

    The backup is checked and brought to this version's schema before anything is replaced. Backups of SQLite and of
    PostgreSQL can be restored to either. The next start notices the restore and begins a new epoch.
    """
    with _database(flags) as database, _progress("Restoring") as on_progress:
        from steelyard.hub.db.restore import restore as put_back  # noqa: PLC0415  # It loads the extra `hub`.

        restored = put_back(database, file, replaces=force, on_progress=on_progress)
    if restored.upgraded:
        click.echo(f"The backup was older than this version: {_counted(len(restored.upgraded))} ran on it.")
    if restored.kept:
        click.echo(f"The old data is kept in {restored.kept}; remove it when you no longer need it.")
    click.echo(f"{database.shown} has the backup's data. Review outside work that it may not know of, then start.")


@db.command()
@_database_flag
def check(**flags: str | None) -> None:
    """Tell whether the database is whole, made by this product, of this version, and where it was.

    Exit code 1 where one answer is bad; each says what to do.
    """
    with _database(flags) as database:
        from steelyard.hub.db.check import check as ask  # noqa: PLC0415  # It loads the extra `hub`.

        click.echo(database.shown)
        are_good = True
        for finding in ask(database):
            are_good = are_good and finding.is_good
            click.echo(f"{finding.name + ':':<14}{'' if finding.is_good else 'BAD: '}{finding.answer}")
    sys.exit(0 if are_good else EXIT_FAILED)


@db.command()
@click.option("--older-than", "age", type=_Age(), required=True, help="Such as 90d, 12h or 30m.")
@click.option("--dry-run", is_flag=True, help="Only tell how many rows would go.")
@_database_flag
def prune(age: timedelta, *, dry_run: bool, **flags: str | None) -> None:
    """Delete old rows of the request log, while hubs serve. A row that is evidence stays.

    SQLite's file does not shrink; it fills the freed room again before it grows.
    """
    with _database(flags) as database:
        from steelyard.hub.db import migrate  # noqa: PLC0415  # It loads the extra `hub`.
        from steelyard.hub.db import prune as pruning  # noqa: PLC0415

        migrate.require_current(database)
        plan = pruning.count(database, older_than=age)
        deleted = plan.deleted
        if not dry_run and plan.deleted:
            with progress_bar("Pruning", length=plan.deleted) as bar:
                deleted = pruning.prune(database, plan, on_rows=bar.update)
    before = plan.before.isoformat(timespec="seconds")
    verb = "would be deleted" if dry_run else "deleted"
    click.echo(f"Requests that began before {before}: {deleted} {verb}, {plan.kept} kept as evidence.")


@contextmanager
def _database(flags: Mapping[str, str | None]) -> Iterator[Database]:
    """Give the database that the settings name, and end with a sentence where something is wrong with it."""
    how_to_go_on = "nothing is half done; run the same command again."
    with refusals_as_sentences(_EXIT_CODES, when_interrupted=how_to_go_on, extra="hub"):
        settings = load_settings(os.environ, flags=flags)
        from steelyard.hub.db.database import Database, Limits  # noqa: PLC0415  # It loads the extra `hub`.

        # A whole table may be counted or copied here, which takes as long as it takes.
        database = Database(settings.database, limits=Limits(statement_s=0))
        with closing(database), naming_the_database(settings.database):
            yield database


@contextmanager
def _progress(label: str) -> Iterator[Callable[[int, int], object]]:
    """Give what draws a bar of pages or rows, whose number is known when the first are done."""
    with progress_bar(label, length=1, shows_count=False) as bar:

        def show(done: int, total: int) -> None:
            bar.length = total
            bar.update(done - bar.pos)

        yield show


@contextmanager
def naming_the_database(url: str) -> Iterator[None]:
    """On the operator's own terminal, say which database cannot be used, and why: no driver's words name a password."""
    try:
        yield
    except (StoreUnavailable, SchemaRefused, StoreCorrupt, StoreReadOnly) as error:
        from steelyard.hub.db.urls import read_url, shown  # noqa: PLC0415  # It loads the extra `hub`.

        cause = error.__cause__
        words = cause.strerror if isinstance(cause, OSError) else str(cause or "")
        reason = str(words or "").strip().partition("\n")[0]
        raise type(error)(f"{error} ({shown(read_url(url))}{': ' + reason if reason else ''})") from error


def _counted(migrations: int) -> str:
    return "1 migration" if migrations == 1 else f"{migrations} migrations"
