from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.gateway.serving import Served, serving
from tests.gateway.upstreams import Upstream, serving_upstream
from tests.gateway.world import World, make_world

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def upstream() -> Iterator[Upstream]:
    with serving_upstream() as upstream:
        yield upstream


@pytest.fixture
def world(database, upstream) -> World:
    return make_world(database, base_url=upstream.url)


@pytest.fixture
def served(world) -> Iterator[Served]:
    with serving(world) as served:
        yield served
