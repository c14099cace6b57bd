"""What one pass of a scorer said about the rows, as the checks compare it. It knows no files."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from steelyard.decide.domain.arithmetic import argmax

if TYPE_CHECKING:
    from collections.abc import Mapping

_LARGEST = 1e300


@dataclass(frozen=True)
class Prediction:
    """One row's answer; *option_ids*, *probabilities* and *logits* have one order, at least two options long."""

    id: str
    option_ids: tuple[str, ...]
    probabilities: tuple[float, ...]
    logits: tuple[float, ...]
    prompt_sha256: str

    @property
    def top(self) -> str:
        """The most probable option's id; ties go to the earlier option."""
        return self.option_ids[argmax(self.probabilities)]

    @property
    def lead(self) -> float:
        """How far the largest logit is above the next; 0 in a tie."""
        first, second = sorted(self.logits, reverse=True)[:2]
        return first - second

    @property
    def is_finite(self) -> bool:
        """Tell whether every probability is a finite number; where not, `top` means nothing."""
        return all(map(math.isfinite, self.probabilities))


@dataclass(frozen=True)
class Scored:
    """One pass over all rows: predictions by row id in the rows' order, and error codes of the rows that have none."""

    name: str
    predictions: Mapping[str, Prediction]
    failures: Mapping[str, str]


def parse_prediction(record: Mapping[str, object]) -> Prediction:
    """Return the prediction in a scorer's result; raises ValueError, whose text says what the record lacks."""
    option_ids = _texts(record, "option_ids")
    probabilities = _numbers(record, "probabilities", count=len(option_ids), low=0.0, high=1.0)
    logits = _numbers(record, "option_logits", count=len(option_ids), low=-_LARGEST, high=_LARGEST)
    identifier, sha256 = record.get("id"), record.get("prompt_sha256")
    if not (isinstance(identifier, str) and isinstance(sha256, str)):
        raise ValueError("id and prompt_sha256 must be strings")  # noqa: TRY004  # A caller's file, not a caller's code.
    return Prediction(
        id=identifier, option_ids=option_ids, probabilities=probabilities, logits=logits, prompt_sha256=sha256
    )


def _texts(record: Mapping[str, object], key: str) -> tuple[str, ...]:
    value = record.get(key)
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value) or len(set(value)) < 2:
        raise ValueError(f"{key} must be a list of at least two strings")
    if len(set(value)) != len(value):
        raise ValueError(f"{key} must not repeat")
    return tuple(value)


def _numbers(record: Mapping[str, object], key: str, *, count: int, low: float, high: float) -> tuple[float, ...]:
    value = record.get(key)
    if not isinstance(value, list) or len(value) != count or not all(_is_within(item, low, high) for item in value):
        raise ValueError(f"{key} must be one finite number per option, from {low:g} to {high:g}")
    return tuple(map(float, value))


def _is_within(item: object, low: float, high: float) -> bool:
    """Tell whether *item* is a number in the range. NaN is in none; an integer beyond floats compares exactly."""
    return isinstance(item, int | float) and not isinstance(item, bool) and low <= item <= high
