"""Order averaging: a decision is scored once for each ordering of its options, and the orderings are combined.

A model may favour a letter whatever stands beside it. Over the rotations of a list (or all its permutations) every
option stands at every letter equally often, so a bias that adds to a letter's logit adds the same to every option's
mean log-probability, and cancels.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from itertools import permutations
from typing import TYPE_CHECKING

from steelyard.decide.domain.arithmetic import argmax, log_sum_exp, softmax
from steelyard.decide.domain.errors import InvalidRequest

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from steelyard.decide.domain.results import Result
    from steelyard.decide.domain.rows import Option, Row

METHODS = ("none", "rotations", "all")
MOST_OPTIONS_FOR_ALL = 4


@dataclass(frozen=True)
class Decision:
    """A row and how its orderings are to be averaged."""

    row: Row
    method: str = "none"

    @property
    def is_averaged(self) -> bool:
        """Tell whether more than the caller's own order is scored."""
        return self.method != "none"

    @property
    def row_count(self) -> int:
        """How many rows the engine will see, counted without building them."""
        count = len(self.row.options)
        return {"none": 1, "rotations": count, "all": math.factorial(count)}[self.method]


def parse_method(value: object, *, option_count: int) -> str:
    """Return the averaging method that *value* names, absent where null; raises InvalidRequest."""
    method = "none" if value is None else value
    if not isinstance(method, str) or method not in METHODS:
        raise InvalidRequest('orderings must be "none", "rotations" or "all"')
    if method == "all" and option_count > MOST_OPTIONS_FOR_ALL:
        raise InvalidRequest(
            f'orderings "all" takes at most {MOST_OPTIONS_FOR_ALL} options, this decision has {option_count}; '
            'use "rotations"'
        )
    return method


def expand(decision: Decision) -> list[Row]:
    """Return the rows to score: the row itself, or one row `<id>#o<k>` per ordering, the caller's order first."""
    if not decision.is_averaged:
        return [decision.row]
    return [
        replace(decision.row, id=f"{decision.row.id}#o{k}", options=options)
        for k, options in enumerate(_orders(decision))
    ]


def _orders(decision: Decision) -> Iterable[tuple[Option, ...]]:
    options = decision.row.options
    if decision.method == "all":
        return permutations(options)
    return (options[k:] + options[:k] for k in range(len(options)))


def combine(decision: Decision, results: Sequence[Result]) -> Result:
    """Return the averaged result of *decision* from the scorer's *results*, one per ordering, in `expand`'s order."""
    ids = decision.row.option_ids
    logits = [_by_id(result, "option_logits", ids) for result in results]
    means = _mean_log_probabilities(logits)
    top = argmax(means)
    agreeing = sum(argmax(ordering) == top for ordering in logits)
    combined = {
        "method": decision.method,
        "orderings": len(results),
        "probabilities": softmax(means),
        "top": ids[top],
        "agreement": agreeing / len(results),
        "spread": _spread(ids, [_by_id(result, "probabilities", ids) for result in results]),
    }
    return {"id": decision.row.id, "option_ids": ids, "combined": combined, "orderings": list(results)}


def _by_id(result: Result, key: str, ids: Sequence[str]) -> list[float]:
    """Return the values under *key* in the order of *ids*, so that ties go to the caller's earlier option."""
    values = dict(zip(result["option_ids"], result[key], strict=True))  # type: ignore[call-overload]  # Both are lists.
    return [values[identifier] for identifier in ids]


def _mean_log_probabilities(logits: Sequence[Sequence[float]]) -> list[float]:
    """Return each option's log-softmax averaged over the orderings.

    The mean of (logit − log Z) is taken as (Σ logit − Σ log Z) / n with exact sums: options whose logits are the same
    in another order then tie exactly, where rounding each difference would break the tie by chance.
    """
    norm = math.fsum(log_sum_exp(ordering) for ordering in logits)
    return [(math.fsum(column) - norm) / len(logits) for column in zip(*logits, strict=True)]


def _spread(ids: Sequence[str], probabilities: Sequence[Sequence[float]]) -> dict[str, list[float]]:
    columns = zip(*probabilities, strict=True)
    return {identifier: [min(column), max(column)] for identifier, column in zip(ids, columns, strict=True)}
