"""The demo, with the fake decision engine and real embedding models: it shows both, and leaves nothing running."""

from __future__ import annotations

import re
import signal
import socket
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[2]
PATIENCE_S = 120
SERVERS = 4  # Two embedding servers, the hub, the decision server.


@contextmanager
def demo(folder: Path, *arguments: str) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-m", "examples.demo", "--model", "fake", "--folder", str(folder), *arguments]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, cwd=ROOT, stdout=pipe, stderr=pipe, text=True) as process:
        yield process


@pytest.fixture(scope="module", autouse=True)
def models(weights) -> None:
    for name in ("all-minilm-l6-v2-int8", "paraphrase-minilm-l3-v2"):
        weights(name)


def test_it_shows_both_routes_their_log_and_three_decisions_and_ends_with_its_servers(tmp_path):
    with demo(tmp_path, "--once") as process:
        said, complaints = process.communicate(timeout=PATIENCE_S)
    assert (process.returncode, complaints) == (0, "")
    assert said.count("answered in") == 3
    assert "+ suite revision search/faq: 4 cases, top_k=3, digest " in said
    assert len(re.findall(r"^ +\w+ +\d+\.\d%", said, re.MULTILINE)) == 3 + 2 + 5 * 2
    assert re.findall(r"Through the route `(\S+)`", said) == ["stable", "minilm-l3-trial"]
    similarities = [float(number) for number in re.findall(r"^ +(-?\d\.\d{3}) ", said, re.MULTILINE)]
    for route in (similarities[:3], similarities[3:]):  # The document about the question comes first.
        assert max(route) == route[0] > 0.3
    assert len(re.findall(r"completed", said)) == 4
    assert are_free(said)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_it_serves_until_a_signal_and_takes_its_servers_along(number, tmp_path):
    with demo(tmp_path) as process:
        said = ""
        for line in process.stdout or ():
            said += line
            if line.startswith("Serving until"):
                break
        assert said.count("curl -s http://127.0.0.1:") == 2
        process.send_signal(number)
        process.communicate(timeout=PATIENCE_S)
    assert are_free(said)


def are_free(said: str) -> bool:
    """Tell whether nothing listens any more where the demo said that it does."""
    ports = re.findall(r"It listens on http://127\.0\.0\.1:(\d+)", said)
    assert len(ports) == SERVERS
    return not any(is_open(int(port)) for port in ports)


def is_open(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0
