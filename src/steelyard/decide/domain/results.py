"""The scorer's result: one row's probabilities and everything needed to check them, keys in the contract's order."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from steelyard.decide.domain.arithmetic import softmax
from steelyard.decide.domain.errors import ScoringFailed
from steelyard.decide.domain.prompt import PROMPT_VERSION

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from steelyard.decide.domain.prompt import Prompt

Result = dict[str, object]
Timing = dict[str, float | int]

PROBABILITY_STATUS = "conditional option score; uncalibrated as decision confidence"


def result_of(
    prompt: Prompt,
    logits: Sequence[float],
    *,
    model: Mapping[str, object],
    readout: str,
    seconds: Mapping[str, float] | None = None,
) -> Result:
    """Return the result of *prompt* whose option letters have *logits*; raises ScoringFailed where one is not finite.

    *seconds* are the direct scorer's timings; a shared result has none.
    """
    if not all(map(math.isfinite, logits)):
        raise ScoringFailed("The model gave a logit that is not finite; nothing was decided")
    return {
        "id": prompt.row.id,
        "option_ids": prompt.row.option_ids,
        "probabilities": softmax(logits),
        "option_logits": list(logits),
        "input_tokens": len(prompt.tokens),
        **(seconds or {}),
        "prompt_sha256": prompt.sha256,
        "prompt_version": PROMPT_VERSION,
        "model": dict(model),
        "readout": readout,
        "probability_status": PROBABILITY_STATUS,
    }
