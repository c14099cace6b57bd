"""Direct scoring: one row, one fresh forward pass."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from steelyard.decide.domain.prompt import encode_row
from steelyard.decide.domain.results import result_of

if TYPE_CHECKING:
    from steelyard.decide.domain.ports import Engine
    from steelyard.decide.domain.results import Result
    from steelyard.decide.domain.rows import Row


def score_direct(row: Row, *, engine: Engine, max_tokens: int) -> Result:
    """Score *row* alone. Raises InvalidRequest before any forward pass, or what the engine raises."""
    if engine.scorers is not None:
        return engine.scorers.score_direct(row, max_tokens=max_tokens)
    started = time.perf_counter()
    prompt = encode_row(row, tokenizer=engine.tokenizer, max_tokens=max_tokens)
    forward_started = time.perf_counter()
    logits = engine.forward(prompt.tokens, prompt.slots)
    ended = time.perf_counter()
    seconds = {"forward_seconds": ended - forward_started, "total_seconds": ended - started}
    return result_of(prompt, logits, model=engine.model, readout=engine.traits.direct_readout, seconds=seconds)
