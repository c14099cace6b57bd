"""A hub that is told to end under load: all that it has taken is answered, and logged."""

from __future__ import annotations

import asyncio
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import httpx2
from tests.gateway.world import make_world

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.gateway.world import World

CLIENTS = 16


def start_hub(url: str) -> tuple[subprocess.Popen[str], str]:
    """Start `steelyard hub serve` on *url*, and give it with its address."""
    environ = {
        "STEELYARD_HUB_DATABASE": url,
        "STEELYARD_HUB_BIND": "127.0.0.1:0",
        "STEELYARD_HUB_CALLS_PER_SECOND": "100000",
    }
    process = subprocess.Popen(
        [Path(sys.executable).with_name("steelyard"), "hub", "serve"], env=environ, stderr=subprocess.PIPE, text=True
    )
    assert process.stderr is not None
    lines = []
    for line in process.stderr:
        lines.append(line)
        if found := re.search(r"http://[\d.:]+", line):
            return process, found[0]
    raise AssertionError("".join(lines))


async def answered_before_the_end(
    process: subprocess.Popen[str], url: str, world: World, *, end_after: int
) -> Sequence[str]:
    """Ask from many clients, end the hub after so many answers, and return the ids of all that were answered."""
    answered: list[str] = []

    async def ask(client: httpx2.AsyncClient) -> None:
        while True:
            try:
                answer = await client.post("/v1/embeddings", json={"model": "stable", "input": "a"})
            except httpx2.TransportError:
                return
            if answer.status_code == 429:  # It drains.
                return
            assert answer.status_code == 200, answer.text
            answered.append(answer.headers["x-request-id"])
            if len(answered) == end_after:
                process.send_signal(signal.SIGTERM)

    headers = {"Authorization": f"Bearer {world.secret}"}
    async with httpx2.AsyncClient(base_url=url, headers=headers, trust_env=False, timeout=30) as client:
        await asyncio.gather(*(ask(client) for _ in range(CLIENTS)))
    return answered


def test_a_hub_that_is_told_to_end_answers_what_it_has_taken(database_url, database, upstream):
    world = make_world(database, base_url=upstream.url)
    process, url = start_hub(database_url)
    with process:
        answered = asyncio.run(answered_before_the_end(process, url, world, end_after=100))
        assert process.stderr is not None
        process.stderr.read()
    assert process.returncode == 0
    assert {row["request_id"]: row["status"] for row in world.rows()} == dict.fromkeys(answered, "completed")
