"""Nothing that was committed is lost and nothing is left half made, however a process or a server ends."""

from __future__ import annotations

import functools
import random
import shutil
import subprocess
import sys
import threading
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING

import pytest
from sqlalchemy import inspect, text
from tests.postgres import Cluster
from tests.store.rows import add_event, events

from steelyard.hub.db import lineage, migrate
from steelyard.hub.db.check import check
from steelyard.hub.db.database import Database, Limits
from steelyard.hub.db.errors import StoreError, StoreFull

if TYPE_CHECKING:
    from collections.abc import Iterator

KILLS = [3, pytest.param(100, marks=[pytest.mark.slow, pytest.mark.timeout(1800)])]
SERVER_KILLS = [3, pytest.param(30, marks=[pytest.mark.slow, pytest.mark.timeout(1800)])]
# Five tables and a rebuilt one, so that a kill finds the work unfinished.
MANY_CHANGES = (
    '[op.create_table(f"notes_{revision}_{n}", sa.Column("id", sa.Integer, primary_key=True)) for n in range(5)]; '
    'op.execute(f"INSERT INTO notes_{revision}_1 (id) VALUES (1), (2), (3)"); '
    "exec(\"with op.batch_alter_table('projects') as b: b.alter_column('name', existing_type=sa.Text(), "
    'nullable=True)")'
)


@contextmanager
def running(*arguments: str) -> Iterator[subprocess.Popen[str]]:
    """Run a program of `rows`, and leave no process behind."""
    command = [sys.executable, "-m", "tests.store.rows", *arguments]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


def kill_after(process: subprocess.Popen[str], seconds: float) -> list[str]:
    """Kill -9 *process* after *seconds* and return what it had said."""
    timer = threading.Timer(seconds, process.kill)  # The moment is random on purpose: nothing is waited for.
    timer.start()
    assert process.stdout is not None
    said = process.stdout.read().splitlines()
    timer.cancel()
    return said


def require_sound(database: Database) -> None:
    assert [finding for finding in check(database) if not finding.is_good] == []


@pytest.mark.parametrize("kills", KILLS)
def test_a_killed_upgrade_leaves_all_of_it_or_nothing(empty, empty_url, add_migration, migrations, kills):
    first = migrate.graph().head
    for _turn in range(4):
        add_migration(MANY_CHANGES)
    arguments = ("upgrade", empty_url, str(migrations))
    chance = random.Random(kills)
    outcomes = set()
    duration_s = 0.6
    for _turn in range(kills):
        reset(empty, first if chance.random() < 0.5 else None)
        before = revision_of(empty)
        with running(*arguments) as process:
            assert process.stdout is not None
            assert process.stdout.readline() == "begins\n"
            said = kill_after(process, chance.uniform(0, duration_s))
        after = revision_of(empty)
        assert after in {before, migrate.graph().head}, said
        if after is None:
            assert tables_of(empty) in ([], ["alembic_version"]), "nothing, or what a downgrade to nothing leaves"
        outcomes.add(after == before)
        # Whichever way it went, the next start has what it needs.
        migrate.upgrade(empty)
        migrate.require_current(empty)
        require_sound(empty)
    assert outcomes == {True, False} or kills < 50, "the kills should fall before and after the commit"


def reset(database: Database, revision: str | None) -> None:
    """Bring *database* to *revision*, from whichever it is at."""
    database.close()
    if database.is_postgresql:
        with database.alter() as connection:
            connection.execute(text("DROP SCHEMA public CASCADE"))
            connection.execute(text("CREATE SCHEMA public"))
    else:
        shutil.rmtree(database.path.parent)
        database.path.parent.mkdir()
        database.make_file()
    if revision is not None:
        migrate.upgrade(database, to=revision)
        with database.write() as connection:
            add_event(connection, "before")


def revision_of(database: Database) -> str | None:
    """Return the revision, having checked that the schema is exactly that revision's."""
    with database.read() as connection:
        revision = lineage.current_revision(connection)
        if revision is not None:
            lineage.require_own(connection, revision, graph=migrate.graph())
    return revision


def tables_of(database: Database) -> list[str]:
    with database.read() as connection:
        return inspect(connection).get_table_names()


@pytest.mark.parametrize("kills", KILLS)
def test_a_killed_writer_has_lost_nothing_that_was_committed(database, database_url, kills):
    told: list[str] = []
    chance = random.Random(kills)
    for turn in range(kills):
        with running("write_until_killed", database_url, str(turn)) as process:
            assert process.stdout is not None
            first = process.stdout.readline().strip()
            told += [first, *kill_after(process, chance.uniform(0, 0.1))]
    written = [line.removeprefix("wrote ") for line in told if line.startswith("wrote ")]
    kept = events(database)
    assert len(written) >= kills
    assert [name for name in written if name not in set(kept)] == []
    assert len(kept) == len(set(kept)) <= len(written) + kills, "a row may be committed and not told, one a kill"
    database.close()
    assert [finding.name for finding in check(database) if not finding.is_good] == []


@pytest.mark.parametrize("kills", SERVER_KILLS)
def test_a_killed_server_has_lost_nothing_that_was_committed(kills):
    cluster = Cluster(is_fsynced=True)
    try:
        with closing(Database(cluster.create("hub"), limits=Limits(connect_s=2))) as database:
            migrate.upgrade(database)
            written = write_while_killed(database, cluster, kills)
            kept = set(events(database))
            require_sound(database)
    finally:
        cluster.stop()
    assert len(written) > kills
    assert [name for name in written if name not in kept] == []


def write_while_killed(database: Database, cluster: Cluster, kills: int) -> list[str]:
    """Let four threads commit rows while the server is killed and started again; return those that were committed."""
    written: list[str] = []
    news = threading.Condition()
    is_over = threading.Event()

    def write(writer: int) -> None:
        number = 0
        while not is_over.is_set():
            number += 1
            try:
                with database.write() as connection:
                    add_event(connection, f"{writer}-{number}")
            except StoreError:
                is_over.wait(0.01)  # The server is down; the next turn tries again.
                continue
            with news:
                written.append(f"{writer}-{number}")
                news.notify_all()

    threads = [threading.Thread(target=write, args=(writer,)) for writer in range(4)]
    for thread in threads:
        thread.start()
    try:
        for turn in range(kills):
            with news:
                wanted = len(written) + 6 + turn % 7
                assert news.wait_for(functools.partial(has_grown, written, wanted), 60)
            cluster.kill()
            cluster.start()
    finally:
        is_over.set()
        for thread in threads:
            thread.join()
    return written


def has_grown(written: list[str], wanted: int) -> bool:
    return len(written) >= wanted


def test_a_full_disk_is_told_and_nothing_is_lost(sqlite_databases):
    with sqlite_databases.fresh() as url, closing(Database(url)) as database:
        database.close()
        command = [sys.executable, "-m", "tests.store.rows", "fill_the_disk", url]
        finished = subprocess.run(command, capture_output=True, text=True, check=True)
        said = finished.stdout.splitlines()
        written = [line.removeprefix("wrote ") for line in said if line.startswith("wrote ")]
        assert "failed store_full" in said
        assert said[-1] == "wrote after", "with room again the same process goes on"
        assert len(written) > 5
        assert events(database) == written
        require_sound(database)


def test_a_backup_that_does_not_fit_is_told_and_leaves_no_file(sqlite_databases, tmp_path):
    with sqlite_databases.fresh() as url:
        command = [sys.executable, "-m", "tests.store.rows", "back_up_without_room", url, str(tmp_path / "backup.db")]
        finished = subprocess.run(command, capture_output=True, text=True, check=True)
    assert finished.stdout == f"failed {StoreFull.code}\n"
    assert list(tmp_path.iterdir()) == []
