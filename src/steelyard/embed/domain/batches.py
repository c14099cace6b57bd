"""Which waiting rows go through the model together.

Rows of one batch are padded to its longest. On a processor a padded token costs as much as a real one, so only rows of
like length share a batch. This module knows lengths alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

# A row joins where it is shorter than the batch's longest by at most an eighth, or by so few tokens that a call of its
# own would cost more.
_PADDED_SHARE = 8
_PADDED_TOKENS = 4


@dataclass(frozen=True)
class BatchLimits:
    """The most padded tokens and rows in one batch; a row that is longer than *max_tokens* goes alone."""

    max_tokens: int
    max_rows: int

    def admit(self, *, rows: int, longest: int) -> bool:
        """Tell whether *rows* rows padded to *longest* tokens may run together."""
        return rows == 1 or (rows <= self.max_rows and rows * longest <= self.max_tokens)


def choose(lengths: Sequence[int], *, limits: BatchLimits) -> list[int]:
    """Return the places in *lengths* (at least one) that run together now, longest first.

    The first place, which has waited longest, is always among them; the others are those of the nearest lengths.
    """
    order = sorted(range(len(lengths)), key=lambda place: (-lengths[place], place))
    first = last = order.index(0)
    while True:
        longer = first > 0 and _fits(lengths, order[first - 1 : last + 1], limits)
        shorter = last + 1 < len(order) and _fits(lengths, order[first : last + 2], limits)
        if longer and shorter:  # The nearer one; it leaves more room for others.
            above = lengths[order[first - 1]] - lengths[0]
            below = lengths[0] - lengths[order[last + 1]]
            longer = above < below
        if longer:
            first -= 1
        elif shorter:
            last += 1
        else:
            return order[first : last + 1]


def _fits(lengths: Sequence[int], chosen: Sequence[int], limits: BatchLimits) -> bool:
    """Tell whether the rows at the places *chosen*, longest first, may run together."""
    longest, shortest = lengths[chosen[0]], lengths[chosen[-1]]
    is_alike = longest - shortest <= max(_PADDED_TOKENS, longest // _PADDED_SHARE)
    return is_alike and limits.admit(rows=len(chosen), longest=longest)
