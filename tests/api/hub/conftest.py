"""The hub's application in this process, on both databases."""

from __future__ import annotations

import pytest


@pytest.fixture
def operator(database):
    """Give an operator of a hub over a fresh database."""
    from tests.hub_api import caller  # noqa: PLC0415  # The engines' tests need no hub.

    return caller(database, "operator")


@pytest.fixture
def viewer(database):
    """Give a viewer of the same hub."""
    from tests.hub_api import caller  # noqa: PLC0415

    return caller(database, "viewer")
