"""The hub's application in this process, on both databases."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.hub_api import Asked, Caller, Catalogue


@pytest.fixture
def asked(database) -> Iterator[Asked]:
    """Give a hub over a fresh database."""
    from tests.hub_api import Asked  # noqa: PLC0415  # The engines' tests need no hub.

    asked = Asked(database)
    yield asked
    asked.close()


@pytest.fixture
def operator(asked: Asked) -> Caller:
    return asked.caller("operator")


@pytest.fixture
def viewer(asked: Asked) -> Caller:
    return asked.caller("viewer")


@pytest.fixture
def catalogue(operator) -> Catalogue:
    """Give one of each thing."""
    from tests.hub_api import fill  # noqa: PLC0415

    return fill(operator)
