"""From four passes and a reference to the four judged checks: pure, and no row is dropped on the way."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from steelyard.decide.acceptance.checks import (
    CONTROL,
    NOISE,
    PARITY,
    SHARED,
    Check,
    Verdict,
    judge_control,
    judge_noise,
    judge_parity,
    judge_shared,
    unscored,
)
from steelyard.decide.acceptance.comparison import Comparison, accuracy, compare

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from steelyard.decide.acceptance.predictions import Prediction, Scored


@dataclass(frozen=True)
class Passes:
    """Four passes over the same rows: direct twice, direct with rotated descriptions, shared."""

    first: Scored
    second: Scored
    shuffled: Scored
    shared: Scored

    def of(self, name: str) -> tuple[Scored, ...]:
        """Return the passes that the check *name* needs, the two that it compares first."""
        return {
            PARITY: (self.first,),
            NOISE: (self.first, self.second),
            CONTROL: (self.first, self.shuffled),
            SHARED: (self.first, self.shared, self.second),
        }[name]


@dataclass(frozen=True)
class Outcome:
    """The six checks in the contract's order, the comparisons behind them, and how often each scorer was right."""

    checks: tuple[Check, ...]
    comparisons: Mapping[str, Comparison]
    accuracy: Mapping[str, float | None]

    @property
    def is_failed(self) -> bool:
        """Tell whether any check failed."""
        return any(check.verdict is Verdict.FAILED for check in self.checks)


def compare_passes(passes: Passes, reference: Mapping[str, Prediction]) -> dict[str, Comparison]:
    """Return the comparison behind each check whose passes answered every row."""
    whole = [name for name in (PARITY, NOISE, CONTROL, SHARED) if not unscored(name, *passes.of(name))]
    return {
        name: compare(reference, passes.first.predictions)
        if name == PARITY
        else compare(*(one.predictions for one in passes.of(name)[:2]))
        for name in whole
    }


def judge(
    passes: Passes,
    comparisons: Mapping[str, Comparison],
    *,
    model: Mapping[str, object],
    reference_model: Mapping[str, object] | None,
    tolerance: float,
) -> list[Check]:
    """Return the four judged checks in order; one that lacks an answer to any row fails."""
    judges: dict[str, Callable[[Comparison], Check]] = {
        PARITY: partial(judge_parity, model=model, reference_model=reference_model),
        NOISE: judge_noise,
        CONTROL: judge_control,
        SHARED: lambda one: judge_shared(
            one, noise=comparisons[NOISE], tolerance=tolerance, device=model.get("device")
        ),
    }
    return [unscored(name, *passes.of(name)) or judges[name](comparisons[name]) for name in judges]


def accuracies(
    passes: Passes, reference: Mapping[str, Prediction], labels: Mapping[str, str]
) -> dict[str, float | None]:
    """Return how often each scorer chose the labelled option; None for all where no row has a label."""
    scored = {"direct": passes.first.predictions, "shared": passes.shared.predictions, "reference": reference}
    return {name: accuracy(predictions, labels) for name, predictions in scored.items()}
