"""`steelyard hub db …` as an operator runs it, on both databases."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import subprocess
import sys
from contextlib import closing
from datetime import timedelta
from typing import TYPE_CHECKING
from urllib.request import urlopen

import pytest
from click.testing import CliRunner
from sqlalchemy import text
from tests.hub_process import STEELYARD
from tests.processes import WAIT_S, started
from tests.store.rows import add_catalogue, add_requests

from steelyard.cli import main
from steelyard.hub.db import migrate
from steelyard.hub.db.database import Database
from steelyard.hub.db.urls import read_url, shown

if TYPE_CHECKING:
    from click.testing import Result


ALL_MIGRATIONS = f"{len(migrate.graph().revisions)} migrations"


def run(url: str, *arguments: str, code: int = 0, command: str = "db") -> Result:
    """Run a command on the database at *url*; fails on another exit code."""
    words = ["hub", *([command] if command else []), *arguments]
    result = CliRunner().invoke(main, words, env={"STEELYARD_HUB_DATABASE": url})
    assert result.exit_code == code, result.output
    return result


def environ_for(url: str) -> dict[str, str]:
    own = {name: value for name, value in os.environ.items() if not name.startswith("STEELYARD_")}
    return own | {"STEELYARD_HUB_DATABASE": url, "STEELYARD_HUB_BIND": "127.0.0.1:0"}


def audit_of(url: str) -> list[str]:
    with closing(Database(url)) as database, database.read() as connection:
        return list(connection.scalars(text("SELECT action FROM audit_events ORDER BY id")))


def test_the_drill_from_an_empty_database_to_a_noticed_restore(empty_url, tmp_path):
    backup = str(tmp_path / "backup.db")
    assert f"{ALL_MIGRATIONS} ran" in run(empty_url, "upgrade").output
    assert "0 migrations ran" in run(empty_url, "upgrade").output
    run(empty_url, "init", command="")
    told = run(empty_url, "backup", backup)
    assert f"steelyard hub db restore {backup}" in told.output
    assert "say --force" in run(empty_url, "backup", backup, code=2).output
    run(empty_url, "init", command="")
    assert audit_of(empty_url) == ["credential.issue"] * 2

    refused = run(empty_url, "restore", backup, code=2)
    assert "The database has data" in refused.output
    assert "The old data is kept in" in run(empty_url, "restore", "--force", backup).output
    assert audit_of(empty_url) == ["credential.issue"]
    assert "the next start begins a new one" in run(empty_url, "check").output

    with started([STEELYARD, "hub", "serve"], environ_for(empty_url)) as (process, log):
        log.wait_for("The database was restored since it was last used: it carries the mark of the backup of")
        address = log.wait_for(r"(http://127\.0\.0\.1:\d+)").group(1)
        assert json.load(urlopen(f"{address}/health", timeout=WAIT_S))["status"] == "ok"
        assert "A hub serves from this database" in run(empty_url, "restore", "--force", backup, code=2).output
        assert "number 1, restored at" in run(empty_url, "check").output
        run(empty_url, "backup", str(tmp_path / "while serving.db"))
        process.send_signal(signal.SIGTERM)
        assert process.wait(WAIT_S) == 0
    assert audit_of(empty_url) == ["credential.issue", "store.restored"]
    run(empty_url, "restore", "--force", backup)


def test_a_start_on_an_empty_database_is_refused_with_what_to_do(postgresql_databases, tmp_path):
    with postgresql_databases.fresh(is_migrated=False) as url:
        for database_url, command in ((f"sqlite:///{tmp_path}/var/hub.db", "init"), (url, "db upgrade")):
            refused = subprocess.run(
                [STEELYARD, "hub", "serve"], env=environ_for(database_url), capture_output=True, text=True,
                check=False, timeout=WAIT_S,
            )  # fmt: skip
            assert refused.returncode == 2
            assert refused.stderr.startswith("Error: ")
            assert refused.stderr.count("\n") == 1
            assert f"steelyard hub {command}" in refused.stderr
            assert refused.stderr.endswith(f"({shown(read_url(database_url))})\n")
    assert not (tmp_path / "var").exists()


def test_a_start_upgrades_when_asked(empty_url):
    with started([STEELYARD, "hub", "serve", "--upgrade"], environ_for(empty_url)) as (_process, log):
        log.wait_for("The database is now at revision")
        log.wait_for(r"http://127\.0\.0\.1:\d+")
    assert "as this version's migrations left it" in run(empty_url, "check").output


def test_a_changed_schema_fails_the_check_and_refuses_the_start(database_url):
    with closing(Database(database_url)) as database, database.alter() as connection:
        connection.execute(text("ALTER TABLE projects ADD COLUMN colour TEXT"))
    assert "BAD: " in run(database_url, "check", code=1).output
    assert "something else changed them" in run(database_url, "init", command="", code=2).output
    for arguments in (["backup", "x.db"], ["upgrade"], ["prune", "--older-than", "1d"]):
        assert "something else changed them" in run(database_url, *arguments, code=2).output


def test_a_downgrade_is_guarded_by_history(database_url):
    assert f"nothing; {ALL_MIGRATIONS} undone" in run(database_url, "downgrade", "nothing").output
    run(database_url, "upgrade")
    run(database_url, "init", command="")
    assert "restore a backup" in run(database_url, "downgrade", "nothing", code=2).output
    assert "There is no revision 1" in run(database_url, "downgrade", "1", code=2).output


def test_pruning_says_first_and_then_does(database_url):
    with closing(Database(database_url)) as database, database.write() as connection:
        now = database.now(connection)
        add_requests(connection, add_catalogue(connection), [now - timedelta(days=100)] * 7 + [now] * 2)
    for _turn in range(2):
        assert ": 7 would be deleted, 0 kept" in run(database_url, "prune", "--older-than", "90d", "--dry-run").output
    assert ": 7 deleted, 0 kept as evidence." in run(database_url, "prune", "--older-than", "90d").output
    assert ": 0 deleted, 0 kept as evidence." in run(database_url, "prune", "--older-than", "90d").output


@pytest.mark.parametrize("age", ["90", "-1d", "0d", "0m", "00m", "9w", "999999d", ""])
def test_an_age_that_cannot_be_read_is_refused(database_url, age):
    assert "write it as 90d, 12h or 30m" in run(database_url, "prune", "--older-than", age, code=2).output


@pytest.mark.parametrize(
    ("url", "code", "sentence"),
    [
        ("mysql://a:s3cret@b/c", 2, "is a SQLite file (sqlite:///FILE) or PostgreSQL"),
        ("sqlite://", 2, "write sqlite:///FILE"),
        ("s3cret", 2, "cannot be read"),
        ("postgresql://hub:s3cret@127.0.0.1:1/hub", 1, "PostgreSQL database hub at 127.0.0.1: "),
        ("postgresql://hub:s3cret@/", 2, "names no database"),
        ("sqlite:////nowhere/at/all/s3cret.db", 2, "`steelyard hub init` makes one"),
    ],
)
def test_a_database_that_cannot_be_used_is_one_sentence_without_a_password(url, code, sentence):
    for arguments in (["check"], ["backup", "x.db"], ["prune", "--older-than", "1d"]):
        told = run(url, *arguments, code=code).stderr
        assert sentence in told
        assert ":s3cret@" not in told
        assert "Traceback" not in told


def test_a_backup_of_one_kind_moves_to_the_other(sqlite_databases, postgresql_databases, tmp_path):
    with sqlite_databases.fresh() as file_url, postgresql_databases.fresh(is_migrated=False) as server_url:
        run(file_url, "init", command="")
        run(file_url, "backup", str(tmp_path / "backup.db"))
        run(server_url, "restore", str(tmp_path / "backup.db"))
        assert audit_of(server_url) == ["credential.issue"]


def test_a_backup_has_no_secret_in_it(database_url, tmp_path):
    secret = run(database_url, "init", command="").stdout.strip().encode()
    run(database_url, "backup", str(tmp_path / "backup.db"))
    assert secret.rpartition(b"_")[2] not in (tmp_path / "backup.db").read_bytes()
    with closing(sqlite3.connect(tmp_path / "backup.db")) as connection:
        assert connection.execute("SELECT count(*) FROM credentials").fetchone() == (1,)


def test_the_command_line_starts_without_the_extra():
    program = (
        "import sys\n"
        "for name in ('sqlalchemy', 'alembic', 'psycopg'): sys.modules[name] = None\n"
        "from click.testing import CliRunner\n"
        "from steelyard.cli import main\n"
        "for words in (['--help'], ['hub', 'db', '--help'], ['hub', 'db', 'prune', '--help']):\n"
        "    assert CliRunner().invoke(main, words).exit_code == 0\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True)
