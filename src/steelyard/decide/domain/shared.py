"""Shared scoring: many rows over one exact state, whose prefix goes through the model once."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from itertools import takewhile
from typing import TYPE_CHECKING

from steelyard.decide.domain.errors import InvalidRequest, OutOfMemory
from steelyard.decide.domain.ports import Suffix
from steelyard.decide.domain.prompt import encode_row, evidence_end, serialise
from steelyard.decide.domain.results import result_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from steelyard.decide.domain.ports import Engine, Prefix, SuffixLogits, Tokenizer
    from steelyard.decide.domain.prompt import Prompt
    from steelyard.decide.domain.results import Result, Timing
    from steelyard.decide.domain.rows import Row


def score_shared(rows: Sequence[Row], *, engine: Engine, max_tokens: int) -> tuple[list[Result], Timing]:
    """Score *rows*, which share one state, and return their results in order with the call's timing.

    Raises InvalidRequest before any forward pass, OutOfMemory where not even one row fits beside the prefix, or what
    the engine raises.
    """
    if engine.scorers is not None:
        return engine.scorers.score_shared(rows, max_tokens=max_tokens)
    started = time.perf_counter()
    _check_rows(rows)
    prompts = [encode_row(row, tokenizer=engine.tokenizer, max_tokens=max_tokens) for row in rows]
    if not engine.tokenizer.can_pad:
        raise InvalidRequest("Tokenizer requires a padding or EOS token")
    prefix_length = shared_prefix_length(prompts, tokenizer=engine.tokenizer)
    encoded = time.perf_counter()
    run = _run(prompts, prefix_length, engine)
    model = {**engine.model, "serving_config": dict(engine.serving_config)}
    results = [
        result_of(prompt, logits, model=model, readout=engine.traits.shared_readout)
        for prompt, logits in zip(prompts, run.logits, strict=True)
    ]
    timing: Timing = {
        "total_seconds": time.perf_counter() - started,
        "encode_seconds": encoded - started,
        "prefix_tokens": prefix_length,
        "prefill_seconds": run.prefill_seconds,
        "replicate_seconds": run.replicate_seconds,
        "suffix_forward_seconds": run.suffix_forward_seconds,
        "batch_size": run.batch_size,
        "true_suffix_tokens": sum(len(prompt.tokens) - prefix_length for prompt in prompts),
        "padded_suffix_tokens": run.padded_suffix_tokens,
    }
    return results, timing


def shared_prefix_length(prompts: Sequence[Prompt], *, tokenizer: Tokenizer) -> int:
    """Return how many leading tokens all *prompts* share, leaving each at least one token of its own.

    One prompt shares with itself the tokens up to its serialised evidence, but for those that merge with what follows.
    """
    others: list[list[int]] = [prompt.tokens for prompt in prompts]
    if len(prompts) == 1:
        others.append(tokenizer.encode(prompts[0].text[: evidence_end(prompts[0])]))
    common = sum(1 for _ in takewhile(lambda column: len(set(column)) == 1, zip(*others, strict=False)))
    return min(common, *(len(prompt.tokens) - 1 for prompt in prompts))


def _check_rows(rows: Sequence[Row]) -> None:
    # Equal in Python is not the same prompt: 1 equals 1.0 and True, and key order counts.
    if len({serialise(row.state) for row in rows}) != 1:
        raise InvalidRequest("Shared scoring requires one nonempty exact state")
    if len({row.id for row in rows}) != len(rows):
        raise InvalidRequest("Decision IDs must be unique")


@dataclass
class _Run:
    """What the engine gave for every row so far, and what it cost."""

    prefill_seconds: float
    batch_size: int
    logits: list[list[float]] = field(default_factory=list)
    replicate_seconds: float = 0.0
    suffix_forward_seconds: float = 0.0
    padded_suffix_tokens: int = 0

    def add(self, batch: SuffixLogits) -> None:
        self.logits += batch.logits
        self.replicate_seconds += batch.replicate_seconds
        self.suffix_forward_seconds += batch.forward_seconds
        self.padded_suffix_tokens += batch.padded_tokens


def _run(prompts: Sequence[Prompt], prefix_length: int, engine: Engine) -> _Run:
    suffixes = [Suffix(tokens=prompt.tokens[prefix_length:], slots=prompt.slots) for prompt in prompts]
    started = time.perf_counter()
    with engine.prefill(prompts[0].tokens[:prefix_length]) as prefix:
        run = _Run(
            prefill_seconds=time.perf_counter() - started, batch_size=min(len(suffixes), engine.traits.rows_per_batch)
        )
        while len(run.logits) < len(suffixes):
            batch = suffixes[len(run.logits) : len(run.logits) + run.batch_size]
            scores = _score_or_none(prefix, batch)
            if scores is None:
                run.batch_size = len(batch) // 2
            else:
                run.add(scores)
    return run


def _score_or_none(prefix: Prefix, batch: Sequence[Suffix]) -> SuffixLogits | None:
    """Score *batch*; None where it must be halved. The error is dropped here, for it would keep tensors alive."""
    try:
        return prefix.score(batch)
    except OutOfMemory:
        if len(batch) == 1:
            raise
    return None
