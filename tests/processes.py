"""Starts the real server as a process of its own, and speaks to it over real sockets.

Waiting is always for something that the server says: a line in its log, or its health.
"""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from contextlib import contextmanager
from dataclasses import dataclass
from http.client import HTTPConnection, HTTPResponse
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

TOKEN = "process-token-0123456789-abcdefghij"
SEMIF_SERVE = [str(Path(sys.executable).parent / "semif-serve")]
EMBED_SERVE = [str(Path(sys.executable).parent / "steelyard"), "embed", "serve"]
EMBED_PREFIX = "STEELYARD_EMBED_"
ROW = {
    "id": "ticket-1",
    "state": "The invoice was charged twice.",
    "question": "Which team should answer?",
    "options": [{"id": "billing", "description": "Billing"}, {"id": "support", "description": "Support"}],
}
BODY = json.dumps(ROW).encode()
WAIT_S = 30.0
_PAUSE_S = 0.01


@dataclass(frozen=True)
class Answer:
    """One HTTP answer; header names are lowercase."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def code(self) -> str:
        """The code in the error envelope; fails where the body is no envelope."""
        content = self.json
        assert list(content) == ["error"], content
        assert list(content["error"]) == ["code", "message"], content
        return str(content["error"]["code"])


class Log:
    """A process's stderr, line by line, read by a thread so that the pipe never fills."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.lines: list[str] = []
        self._has_ended = False
        self._news = threading.Condition()
        self._reader = threading.Thread(target=self._read, args=(process,), daemon=True)
        self._reader.start()

    def wait_for(self, pattern: str, *, timeout_s: float = WAIT_S) -> re.Match[str]:
        """Return the first match in the log, now or later; fails at the log's end."""
        with self._news:
            self._news.wait_for(lambda: self._has_ended or self._match(pattern), timeout_s)
            match = self._match(pattern)
        assert match, f"the log never said {pattern!r}:\n{self.text}"
        return match

    @property
    def text(self) -> str:
        return "".join(self.lines)

    def join(self) -> None:
        """Wait for the log's end."""
        self._reader.join(WAIT_S)

    def _match(self, pattern: str) -> re.Match[str] | None:
        return next((match for line in self.lines if (match := re.search(pattern, line))), None)

    def _read(self, process: subprocess.Popen[str]) -> None:
        assert process.stderr is not None
        for line in process.stderr:
            with self._news:
                self.lines.append(line)
                self._news.notify_all()
        with self._news:
            self._has_ended = True
            self._news.notify_all()


class Server:
    """A server process that listens."""

    def __init__(self, process: subprocess.Popen[str], log: Log) -> None:
        self.process = process
        self.log = log
        self.port = int(log.wait_for(r"Serving .* on http://127\.0\.0\.1:(\d+)").group(1))

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def connect(self) -> socket.socket:
        """Open a raw connection."""
        return socket.create_connection(("127.0.0.1", self.port), timeout=WAIT_S)

    def request(self, method: str, path: str, body: bytes | None = None, **headers: str) -> Answer:
        """Send one request on a connection of its own."""
        connection = HTTPConnection("127.0.0.1", self.port, timeout=WAIT_S)
        try:
            return ask(connection, method, path, body, **headers)
        finally:
            connection.close()

    def post(self, path: str = "/decide", body: bytes = BODY, **headers: str) -> Answer:
        return self.request("POST", path, body, **headers)

    def health(self) -> Any:
        return self.request("GET", "/health").json

    def wait_until(self, is_so: Callable[[Any], bool]) -> Any:
        """Return the first health that *is_so*."""
        ends = time.monotonic() + WAIT_S
        while not is_so(health := self.health()):
            assert time.monotonic() < ends, f"this was the last health: {health}"
            time.sleep(_PAUSE_S)  # The pause only spares the machine; the health above is what is waited for.
        return health

    def metric(self, series: str) -> float:
        """Return the value of one series, written as in Prometheus's text; 0 where it is not there yet."""
        text = self.request("GET", "/metrics").body.decode()
        match = re.search(rf"^{re.escape(series)} (\S+)$", text, re.MULTILINE)
        return float(match.group(1)) if match else 0.0

    def stop(self, *signals: int) -> int:
        """Send *signals* and return the exit code."""
        for number in signals or (signal.SIGTERM,):
            self.process.send_signal(number)
        return self.process.wait(WAIT_S)


def ask(connection: HTTPConnection, method: str, path: str, body: bytes | None = None, **headers: str) -> Answer:
    """Send one request with the token on an open *connection*."""
    names = {name.replace("_", "-"): value for name, value in headers.items()}
    connection.request(method, path, body, {"Authorization": f"Bearer {TOKEN}", **names})
    return _answer(connection.getresponse())


def read_answer(raw: socket.socket) -> Answer:
    """Read one answer from a raw connection."""
    response = HTTPResponse(raw)
    response.begin()
    return _answer(response)


def head_of(method: str, path: str, *headers: str, token: str | None = TOKEN) -> bytes:
    """Return a request's head, for sending over a raw connection."""
    authorization = [] if token is None else [f"Authorization: Bearer {token}"]
    return "\r\n".join([f"{method} {path} HTTP/1.1", "Host: x", *authorization, *headers, "", ""]).encode("latin-1")


def is_closed(raw: socket.socket) -> bool:
    """Tell whether the server closes the connection, without a reset; waits for it."""
    return raw.recv(1) == b""


def _answer(response: HTTPResponse) -> Answer:
    headers = {name.lower(): value for name, value in response.getheaders()}
    return Answer(status=response.status, headers=headers, body=response.read())


def environ_of(*, prefix: str = "SEMIF_", **settings: object) -> dict[str, str]:
    """Return this process's environment with only the named settings after *prefix*; None leaves one out."""
    own = {name: value for name, value in os.environ.items() if not name.startswith(prefix)}
    values = {"api_token": TOKEN, "model": "fake", "bind": "127.0.0.1:0", **settings}
    return own | {f"{prefix}{name.upper()}": str(value) for name, value in values.items() if value is not None}


@contextmanager
def started(command: Sequence[str], environ: Mapping[str, str]) -> Iterator[tuple[subprocess.Popen[str], Log]]:
    """Start *command*, and leave no process behind."""
    process = subprocess.Popen(
        command,
        env=dict(environ),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    with process:
        log = Log(process)
        try:
            yield process, log
        finally:
            process.kill()
            process.wait(WAIT_S)
            log.join()


@contextmanager
def serving(*, command: Sequence[str] = SEMIF_SERVE, prefix: str = "SEMIF_", **settings: object) -> Iterator[Server]:
    """Run a server until the end of the block; `max_queue=1` stands for SEMIF_MAX_QUEUE=1."""
    with started(command, environ_of(prefix=prefix, **settings)) as (process, log):
        yield Server(process, log)


def refusal(*arguments: str, environ: Mapping[str, str]) -> tuple[int, str]:
    """Run the command to its end and return its exit code and what it wrote to stderr."""
    finished = subprocess.run(
        [*SEMIF_SERVE, *arguments], env=dict(environ), capture_output=True, text=True, check=False, timeout=WAIT_S
    )
    return finished.returncode, finished.stderr
