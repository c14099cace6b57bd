from __future__ import annotations

import json
from contextlib import ExitStack
from typing import TYPE_CHECKING

import pytest
from tests.api.asgi import CountingEngine, Served, serve, settings_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from steelyard.decide.engines.fake import FakeEngine


@pytest.fixture
def serving() -> Iterator[Callable[..., Served]]:
    """Start servers on an engine, with settings by name; all end with the test."""
    with ExitStack() as stack:

        def start(engine: FakeEngine | None = None, **settings: object) -> Served:
            served = serve(engine, settings=settings_of(**settings))
            stack.callback(served.server.thread.close)
            return served

        yield start


@pytest.fixture
def engine() -> CountingEngine:
    return CountingEngine()


@pytest.fixture
def served(serving: Callable[..., Served], engine: CountingEngine, table: Path) -> Served:
    """A server with default limits, two workloads and an engine that counts."""
    return serving(engine, calibration=table)


@pytest.fixture
def table(tmp_path: Path) -> Path:
    path = tmp_path / "calibration.json"
    path.write_text(json.dumps({"triage": 2.5, "audit": 0.5}))
    return path
