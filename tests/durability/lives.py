"""Lives of a hub's process under load, each ended by SIGKILL at a moment that nobody chose."""

from __future__ import annotations

import os
import random
import shutil
import signal
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

from tests.durability.invariants import require_whole
from tests.durability.traffic import traffic
from tests.hub_process import hubs_serving

from steelyard.hub.db.database import Database

if TYPE_CHECKING:
    from tests.durability.traffic import Scene
    from tests.processes import Server

SEED_VARIABLE = "STEELYARD_TEST_SEED"
_LONGEST_S = 0.25
_LIVELY = 10  # Answers, after which every kind of request has begun.


def seeded() -> random.Random:
    """Return the source of every chance in a test; its seed is printed, and a variable gives it again."""
    seed = os.environ.get(SEED_VARIABLE) or str(random.SystemRandom().randrange(1 << 32))
    sys.stdout.write(f"{SEED_VARIABLE}={seed}\n")  # pytest shows it with a failure.
    return random.Random(seed)


def live_and_die(scene: Scene, rng: random.Random) -> None:
    """Serve, freeze and go on, and kill the process, all under load; check what each moment leaves."""
    with hubs_serving(scene.url) as [hub], traffic(scene, hub.port, rng=rng):
        wait_for_answers(scene)
        _pause(rng)
        _freeze(scene, hub)
        wait_for_answers(scene)
        _pause(rng)
        hub.stop(signal.SIGKILL)
    database = Database(scene.url)
    require_whole(database, scene.ledger)
    database.close()


def live_and_leave(scene: Scene, rng: random.Random) -> None:
    """Serve under load and leave on SIGTERM, with every call that was begun at its end."""
    with hubs_serving(scene.url) as [hub]:
        with traffic(scene, hub.port, rng=rng):
            wait_for_answers(scene)
        assert hub.stop() == 0, hub.log.text
    database = Database(scene.url)
    require_whole(database, scene.ledger)
    database.close()


def _freeze(scene: Scene, hub: Server) -> None:
    """Stop the process where it is, check the database that a kill at this moment would leave, and let it go on.

    Whatever clients have when it goes on was sent before it stopped.
    """
    hub.process.send_signal(signal.SIGSTOP)
    os.waitpid(hub.process.pid, os.WUNTRACED)
    try:
        _require_whole_when_frozen(scene)
    finally:
        hub.process.send_signal(signal.SIGCONT)


def _require_whole_when_frozen(scene: Scene) -> None:
    with tempfile.TemporaryDirectory() as temporary:
        database = Database(scene.url)
        if not database.is_postgresql:  # A copy has no owner any more, as after a kill.
            folder = Path(temporary) / "copy"
            shutil.copytree(database.path.parent, folder)
            database = Database(f"sqlite:///{folder / database.path.name}")
        require_whole(database, scene.ledger)
        database.close()


def wait_for_answers(scene: Scene) -> None:
    """Return once the hub has answered a few more calls and changes well."""
    ledger = scene.ledger
    embedded, changed = len(ledger.embedded), len(ledger.changed)
    ledger.wait_until(
        lambda: len(ledger.embedded) >= embedded + _LIVELY and len(ledger.changed) >= changed + _LIVELY,
        what="answers of the hub",
    )


def _pause(rng: random.Random) -> None:
    """Let a moment pass that nobody chose: this is the chance in these tests, and waits for nothing."""
    time.sleep(rng.uniform(0, _LONGEST_S))
