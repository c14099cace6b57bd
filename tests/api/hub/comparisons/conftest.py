from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.comparing import Stage


@pytest.fixture
def stage(asked) -> Stage:
    """Give everything that a comparison needs, on both databases in turn."""
    from tests.comparing import make_stage  # noqa: PLC0415  # The engines' tests need no hub.

    return make_stage(asked)
