"""What is measured on rows of our own: the longest prompt's memory, and the speed of many criteria on one state."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING

from steelyard.decide.acceptance.checks import Memory, Speed
from steelyard.decide.acceptance.probes import CRITERIA, count_tokens, rows_over, state_for
from steelyard.decide.domain.direct import score_direct
from steelyard.decide.domain.shared import score_shared

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from steelyard.decide.domain.ports import Engine
    from steelyard.decide.domain.results import Timing
    from steelyard.decide.domain.rows import Row
    from steelyard.decide.model_thread import ModelThread

DIRECT_ROWS = 3
# A prompt of the speed check: about 1,500 tokens of evidence and what stands around it.
_SPEED_TOKENS = 1600
_MEMORY_TOKENS = 4096
# Criteria with other numbers in them may be a little longer than the one that is measured.
_SPARE_TOKENS = 8


def measure_memory(thread: ModelThread, *, max_tokens: int) -> Memory:
    """Score one row of 4,096 tokens, or of the limit where that is less, and return what the process held at most.

    An engine's peak counts since the model was loaded, so this must run before anything else does: batches of the
    other checks would raise it. Raises a DecideError where the row cannot be scored.
    """
    tokens = min(_MEMORY_TOKENS, max_tokens)

    def job(engine: Engine) -> Memory:
        row = rows_over(state_for(engine.tokenizer, prompt_tokens=tokens))[-1]
        score_direct(row, engine=engine, max_tokens=tokens)
        return Memory(
            input_tokens=count_tokens(row, tokenizer=engine.tokenizer),
            gpu_bytes=engine.peak_gpu_bytes,
            resident_bytes=peak_resident_bytes(),
        )

    return thread.submit(job).result()


def measure_speed(thread: ModelThread, *, max_tokens: int, repeats: int, on_call: Callable[[int], object]) -> Speed:
    """Score 21 criteria over one state *repeats* times shared, and a few of them direct.

    *on_call* hears after each call how many decisions it made. Raises a DecideError where a call fails.
    """
    tokens = min(_SPEED_TOKENS, max_tokens - _SPARE_TOKENS)
    rows = rows_over(thread.submit(lambda engine: state_for(engine.tokenizer, prompt_tokens=tokens)).result())
    timings = []
    for _ in range(repeats):
        timings.append(_shared_timing(thread, rows, max_tokens))
        on_call(CRITERIA)
    direct_seconds = []
    for row in rows[:DIRECT_ROWS]:
        direct_seconds.append(_direct_seconds(thread, row, max_tokens))
        on_call(1)
    return Speed(
        decisions=CRITERIA,
        shared_seconds=tuple(float(timing["total_seconds"]) for timing in timings),
        direct_seconds=tuple(direct_seconds),
        prefix_tokens=int(timings[0]["prefix_tokens"]),
        suffix_tokens=int(timings[0]["true_suffix_tokens"]),
    )


def peak_resident_bytes() -> int:
    """Return the largest resident set of this process so far, of its own program alone.

    What `getrusage` counts includes the process that started this one.
    """
    status = Path("/proc/self/status").read_text(encoding="ascii", errors="replace")
    (line,) = (line for line in status.splitlines() if line.startswith("VmHWM:"))
    return int(line.split()[1]) * 1024


def _shared_timing(thread: ModelThread, rows: Sequence[Row], max_tokens: int) -> Timing:
    return thread.submit(lambda engine: score_shared(rows, engine=engine, max_tokens=max_tokens)).result()[1]


def _direct_seconds(thread: ModelThread, row: Row, max_tokens: int) -> float:
    def job(engine: Engine) -> float:
        started = time.perf_counter()
        score_direct(row, engine=engine, max_tokens=max_tokens)
        return time.perf_counter() - started

    return thread.submit(job).result()
