"""Starts the product's servers as an operator would, for the demo: a command line each, and a signal at the end."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections import deque
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

STEELYARD = Path(sys.executable).with_name("steelyard")
# The demo's servers take no settings from outside, except where the pulled models lie.
_KEPT = ("SEMIF_MODELS_DIR",)
_PREFIXES = ("SEMIF_", "STEELYARD_")


def own_environment(**settings: str) -> dict[str, str]:
    """Return this process's environment with only the given settings of steelyard's."""
    names = [name for name in os.environ if not name.startswith(_PREFIXES) or name in _KEPT]
    return {name: os.environ[name] for name in names} | settings


def run(*arguments: str, environment: Mapping[str, str]) -> str:
    """Run a command of steelyard's, show it, and return what it printed; leaves with what it said where it fails."""
    print(f"   $ steelyard {' '.join(arguments)}", flush=True)
    finished = subprocess.run(
        [str(STEELYARD), *arguments], env=dict(environment), capture_output=True, text=True, check=False
    )
    if finished.returncode != 0:
        sys.exit(f"That ended with exit code {finished.returncode}:\n{finished.stdout}{finished.stderr}")
    return finished.stdout


@contextmanager
def running(what: str, arguments: Sequence[str], *, environment: Mapping[str, str]) -> Iterator[str]:
    """Run a server and yield its address; it is asked to end, and waited for, at the end of the block."""
    print(f"Starting {what} …", flush=True)
    started = time.perf_counter()
    # The server gets Ctrl-C through us, not beside us: its own group keeps the terminal's signal away.
    server = subprocess.Popen(
        [str(STEELYARD), *arguments],
        env=dict(environment),
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    last_lines: deque[str] = deque(maxlen=50)
    try:
        url = _address_of(server)
        # A full pipe would block the server, so the rest of its log is read and its end kept.
        threading.Thread(target=last_lines.extend, args=(server.stderr,), daemon=True).start()
        print(f"It listens on {url}, ready after {time.perf_counter() - started:.1f} s.\n")
        yield url
    finally:
        server.send_signal(signal.SIGTERM)
        if server.wait() != 0:
            print(f"The server ended with exit code {server.returncode}:\n{''.join(last_lines)}", file=sys.stderr)


def _address_of(server: subprocess.Popen[str]) -> str:
    said = ""
    for line in server.stderr or ():
        said += line
        if found := re.search(r"Serving .* on (http://\S+)", line):
            return found[1]
    sys.exit(f"The server did not start:\n{said}")
