"""A test that asks for `stage` gets a copy of a database with everything that a comparison needs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.comparing import Stage


@pytest.fixture
def staged(databases) -> Iterator[tuple[str, Stage]]:
    """Give the URL of a copy, and what was made in the database that it is a copy of."""
    from tests.comparing import stage_at  # noqa: PLC0415  # The engines' tests need no hub.

    with databases.copy_of(stage_at) as copy:
        yield copy


@pytest.fixture
def database_url(request, databases) -> Iterator[str]:
    """Give the copy's URL to a test that asks for `stage`, and that of a database without rows to any other."""
    if "stage" in request.fixturenames:
        yield request.getfixturevalue("staged")[0]
        return
    with databases.fresh() as url:
        yield url


@pytest.fixture
def stage(asked, staged) -> Stage:
    """Give everything that a comparison needs, on both databases in turn."""
    made: Stage = staged[1]
    return made.asked_by(asked)
