"""The tests' own PostgreSQL: it starts on any machine, as any user, and never stays behind."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
import time
from pathlib import Path

import psycopg
import pytest
from tests import postgres as module
from tests.postgres import NEWEST, OLDEST, Cluster, NoPostgres

STARTS_ONE = (
    "import sys, time; from tests.postgres import Cluster; "
    "cluster = Cluster(); print(cluster.folder, flush=True); sys.stdin.read()"
)


def version_of(cluster: Cluster) -> int:
    with psycopg.connect(cluster.url("postgres")) as connection:
        return connection.info.server_version // 10000


@pytest.mark.parametrize(("install", "version"), [(OLDEST, 16), (NEWEST, 18)])
def test_both_versions_start(install, version):
    cluster = Cluster(install=install)
    assert version_of(cluster) == version
    cluster.stop()
    assert not cluster.folder.exists()


def test_programs_that_the_servers_account_cannot_run_in_place_are_copied(monkeypatch):
    runnable = module._is_runnable
    package = module._package()

    def is_runnable(programs, account, folder):
        return not programs.is_relative_to(package) and runnable(programs, account, folder)

    monkeypatch.setattr(module, "_is_runnable", is_runnable)
    cluster = Cluster()
    assert cluster.programs.is_relative_to(cluster.folder)
    assert version_of(cluster) == 18
    cluster.stop()


def test_a_server_goes_when_its_process_is_killed():
    with subprocess.Popen(
        [sys.executable, "-c", STARTS_ONE], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        folder = Path(process.stdout.readline().strip())
        number = int((folder / "data" / "postmaster.pid").read_text(encoding="ascii").split("\n")[0])
        process.kill()
    ends = time.monotonic() + 30
    while folder.exists():
        assert time.monotonic() < ends, "the server's folder is still there"
        time.sleep(0.05)  # The pause only spares the machine.
    with pytest.raises(ProcessLookupError):
        os.kill(number, 0)


def test_a_killed_server_starts_again_with_what_was_committed():
    cluster = Cluster()
    with psycopg.connect(cluster.url("postgres")) as connection:
        connection.execute("CREATE TABLE kept (id INTEGER)")
    cluster.kill()
    with pytest.raises(psycopg.OperationalError):
        psycopg.connect(cluster.url("postgres"))
    cluster.start()
    with psycopg.connect(cluster.url("postgres")) as connection:
        assert connection.execute("SELECT count(*) FROM kept").fetchone() == (0,)
    cluster.stop()


def test_without_the_wheel_the_tests_fail_and_say_what_to_install(monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda _name: None)
    module._package.cache_clear()
    with pytest.raises(NoPostgres, match="install the extra `dev`"):
        Cluster()
    module._package.cache_clear()


def test_a_server_that_cannot_start_fails_and_shows_its_log(monkeypatch):
    cluster = Cluster()
    cluster.kill()
    monkeypatch.setattr(module, "WAIT_S", 2.0)
    (cluster.folder / "data" / "postgresql.conf").write_text("no setting at all\n", encoding="utf-8")
    with pytest.raises(NoPostgres, match="syntax error"):
        cluster.start()
    monkeypatch.undo()
    cluster.stop()
