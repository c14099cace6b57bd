"""The demo, on the fake model: it answers, shows how to repeat, and leaves nothing running."""

from __future__ import annotations

import re
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

DEMO = Path(__file__).parents[2] / "examples" / "decisions.py"
PATIENCE_S = 60


def test_it_shows_three_decisions_and_ends_with_its_server():
    finished = subprocess.run(
        [sys.executable, str(DEMO), "--once", "--model", "fake"],
        capture_output=True,
        text=True,
        check=True,
        timeout=PATIENCE_S,
    )
    assert finished.stderr == ""
    assert finished.stdout.count("answered in") == 3
    assert len(re.findall(r"^ +\w+ +\d+\.\d%", finished.stdout, re.MULTILINE)) == 3 + 2 + 5 * 2
    assert is_free(finished.stdout)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_it_serves_until_a_signal_and_takes_its_server_along(number):
    with subprocess.Popen([sys.executable, str(DEMO), "--model", "fake"], stdout=subprocess.PIPE, text=True) as process:
        said = ""
        for line in process.stdout or ():
            said += line
            if line.startswith("Serving until"):
                break
        assert "curl -s http://127.0.0.1:" in said
        process.send_signal(number)
        process.communicate(timeout=PATIENCE_S)
    assert is_free(said)


def is_free(said: str) -> bool:
    """Tell whether nothing listens any more where the demo said that it does."""
    (port,) = re.findall(r"It listens on http://127\.0\.0\.1:(\d+)", said)
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", int(port))) != 0
