"""Tells by its exit code whether the decision server on this machine is ready: 0 if it is, 1 if not.

It asks at the port of SEMIF_BIND. With --wait it asks until the answer is yes, or until the process MAINPID, which
systemd names, has ended. It needs nothing but Python.
"""

from __future__ import annotations

import os
import sys
import time
from http.client import HTTPConnection, HTTPException

_ANY_ADDRESS = {"0.0.0.0": "127.0.0.1", "[::]": "::1"}  # noqa: S104  # Who listens everywhere also listens at home.
_TIMEOUT_S = 5
_PAUSE_S = 0.5


def is_ready(bind: str) -> bool:
    """Tell whether the server that listens at *bind* takes requests."""
    host, _, port = bind.rpartition(":")
    connection = HTTPConnection(_ANY_ADDRESS.get(host, host.strip("[]")), int(port), timeout=_TIMEOUT_S)
    try:
        connection.request("GET", "/health?ready")
        return connection.getresponse().status == 200
    except (OSError, HTTPException):
        return False
    finally:
        connection.close()


def is_alive(pid: int) -> bool:
    """Tell whether the process *pid* is there."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def main() -> int:
    """Return the exit code."""
    bind = os.environ.get("SEMIF_BIND", "127.0.0.1:8471")
    while not (ready := is_ready(bind)) and "--wait" in sys.argv and is_alive(int(os.environ["MAINPID"])):
        time.sleep(_PAUSE_S)
    return 0 if ready else 1


if __name__ == "__main__":
    sys.exit(main())
