"""The arithmetic of acceptance: how far two passes over the same rows are apart, and how often one of them is right."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from steelyard.decide.acceptance.predictions import Prediction

_GIB = 1 << 30
_QUARTER_GIB = _GIB // 4


@dataclass(frozen=True)
class Flip:
    """A row whose top option is *before* in the first pass, *lead* logits ahead there, and *after* in the second."""

    id: str
    before: str
    after: str
    lead: float


@dataclass(frozen=True)
class Comparison:
    """Two passes over the same rows, option for option.

    *gaps* has each row's largest difference of a probability, in the rows' order; a NaN stays one.
    """

    ids: tuple[str, ...]
    gaps: tuple[float, ...]
    flips: tuple[Flip, ...]
    equal_prompts: int

    @property
    def rows(self) -> int:
        """How many rows were compared; at least one."""
        return len(self.ids)

    @property
    def same_top(self) -> int:
        """How many rows have the same top option in both."""
        return self.rows - len(self.flips)

    @property
    def agreement(self) -> float:
        """The fraction of rows with the same top option."""
        return self.same_top / self.rows

    @property
    def largest_gap(self) -> float:
        """The largest gap of any row; NaN where any gap is NaN, which `max` alone would hide."""
        return max(self.gaps) if all(map(math.isfinite, self.gaps)) else math.nan

    @property
    def widest_row(self) -> str:
        """The id of the first row with the largest gap, or of the first whose gap is NaN."""
        return self.ids[next(i for i, gap in enumerate(self.gaps) if gap == self.largest_gap or math.isnan(gap))]


def compare(first: Mapping[str, Prediction], second: Mapping[str, Prediction]) -> Comparison:
    """Return how *second* differs from *first*. Both have the same row ids, and each row the same option ids."""
    pairs = [(one, second[identifier]) for identifier, one in first.items()]
    return Comparison(
        ids=tuple(one.id for one, _ in pairs),
        gaps=tuple(_gap(one, other) for one, other in pairs),
        flips=tuple(_flip(one, other) for one, other in pairs if not _has_same_top(one, other)),
        equal_prompts=sum(one.prompt_sha256 == other.prompt_sha256 for one, other in pairs),
    )


def _gap(one: Prediction, other: Prediction) -> float:
    by_id = dict(zip(other.option_ids, other.probabilities, strict=True))
    gaps = [abs(p - by_id[option]) for option, p in zip(one.option_ids, one.probabilities, strict=True)]
    return max(gaps) if all(map(math.isfinite, gaps)) else math.nan


def _has_same_top(one: Prediction, other: Prediction) -> bool:
    """A probability that is not finite has no place in an order, so such a row agrees with nothing."""
    return one.is_finite and other.is_finite and one.top == other.top


def _flip(one: Prediction, other: Prediction) -> Flip:
    return Flip(id=one.id, before=one.top, after=other.top, lead=one.lead)


def accuracy(predictions: Mapping[str, Prediction], labels: Mapping[str, str]) -> float | None:
    """Return how often the top option is the labelled one, over the rows of *labels*; None without labels.

    A labelled row without a prediction counts as wrong, so that silence cannot raise a mean.
    """
    if not labels:
        return None
    right = sum(row in predictions and predictions[row].top == label for row, label in labels.items())
    return right / len(labels)


def recommended_cap_gib(peak_bytes: int) -> float:
    """Return *peak_bytes* plus 5 %, rounded up to a quarter GiB. In integers: no rounding may fall below the peak."""
    quarters = -(-peak_bytes * 105 // (100 * _QUARTER_GIB))
    return quarters / 4
