"""Softmax and its relatives over a handful of logits, in double precision."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence


def log_sum_exp(logits: Sequence[float]) -> float:
    """Return log Σ exp(logit), shifted by the largest so that nothing overflows; the order of *logits* is irrelevant.

    *logits* are finite and at least one.
    """
    top = max(logits)
    return top + math.log(math.fsum(math.exp(logit - top) for logit in logits))


def softmax(logits: Sequence[float], *, temperature: float = 1.0) -> list[float]:
    """Return exp(logit / temperature) normalised to sum 1, in the order of *logits*.

    A temperature divides every logit before the softmax (Guo et al. 2017, "On Calibration of Modern Neural Networks"),
    so it moves confidence and never the order of the options.
    """
    scaled = [logit / temperature for logit in logits]
    top = max(scaled)
    weights = [math.exp(logit - top) for logit in scaled]
    total = math.fsum(weights)
    return [weight / total for weight in weights]


def argmax(values: Sequence[float]) -> int:
    """Return the index of the largest value; ties go to the earliest."""
    return max(range(len(values)), key=values.__getitem__)
