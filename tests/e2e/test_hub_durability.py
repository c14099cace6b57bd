"""A hub killed at any moment under load loses nothing that it answered, and leaves nothing half made."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import pytest
from tests.durability.lives import live_and_die, live_and_leave, seeded
from tests.durability.traffic import make_scene
from tests.gateway.upstreams import serving_upstream

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.gateway.upstreams import Upstream


@pytest.fixture
def upstream() -> Iterator[Upstream]:
    with serving_upstream() as upstream:
        yield upstream


def test_a_killed_hub_leaves_every_answer_and_nothing_half_made(databases, upstream):
    rng = seeded()
    with databases.fresh() as url:
        scene = make_scene(url, upstream)
        for _ in range(3):
            live_and_die(scene, rng)
        live_and_leave(scene, rng)


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_a_hundred_kills_leave_every_answer_and_nothing_half_made(databases, upstream, capsys):
    rng = seeded()
    for chapter in range(10):  # Each with a database of its own, since a check reads all of it.
        with databases.fresh() as url:
            scene = make_scene(url, upstream)
            for life in range(10):
                live_and_die(scene, rng)
                with capsys.disabled():
                    said = f"{databases.kind}: {10 * chapter + life + 1} of 100 kills"
                    sys.stderr.write(f"\r{said}, {len(scene.ledger.embedded)} calls answered\033[K")
            live_and_leave(scene, rng)
