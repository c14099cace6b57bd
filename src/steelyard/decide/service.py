"""The scoring service: takes a plan, runs it on the model thread, and gives up when nobody waits any more."""

from __future__ import annotations

from typing import TYPE_CHECKING

from steelyard.decide.domain.direct import score_direct
from steelyard.decide.domain.errors import InvalidRequest, OutOfMemory
from steelyard.decide.domain.plans import answers_of, rows_of
from steelyard.decide.domain.shared import score_shared
from steelyard.hall.texts import shorten
from steelyard.web.departed import result_while_wanted

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from concurrent.futures import Future

    from steelyard.decide.domain.plans import Plan, Rules
    from steelyard.decide.domain.ports import Engine
    from steelyard.decide.domain.results import Result, Timing
    from steelyard.decide.domain.rows import Row
    from steelyard.decide.metrics import Metrics
    from steelyard.decide.model_thread import ModelThread
    from steelyard.web.admission import Permit
    from steelyard.web.departed import Watch

_DIRECT_PHASES = {"forward": "forward_seconds", "total": "total_seconds"}
_SHARED_PHASES = {
    "encode": "encode_seconds",
    "prefill": "prefill_seconds",
    "replicate": "replicate_seconds",
    "suffix_forward": "suffix_forward_seconds",
    "total": "total_seconds",
}
_Scored = tuple[list["Result"], "Timing"]


class ScoringService:
    """Scores plans, one engine call each."""

    def __init__(self, thread: ModelThread, *, rules: Rules, max_tokens: int, metrics: Metrics) -> None:
        self.rules = rules
        self._thread = thread
        self._max_tokens = max_tokens
        self._metrics = metrics

    async def decide(self, plan: Plan, *, permit: Permit, gone: Watch) -> Result:
        """Return the answer to a plan of one decision; raises ClientGone once *gone*() ends, or a DecideError."""
        if plan.has_averaging:
            answers, _timing = await self.decide_shared(plan, permit=permit, gone=gone)
            return answers[0]
        row = plan.decisions[0].row
        results, _timing = await self._score(lambda engine: self._direct(engine, row), permit=permit, gone=gone)
        return answers_of(plan, results, rules=self.rules)[0]

    async def decide_shared(self, plan: Plan, *, permit: Permit, gone: Watch) -> tuple[list[Result], Timing]:
        """Return one answer per decision and the timing of the one engine call; raises as `decide` does."""
        rows = rows_of(plan)
        results, timing = await self._score(lambda engine: self._shared(engine, rows), permit=permit, gone=gone)
        return answers_of(plan, results, rules=self.rules), timing

    async def _score(self, job: Callable[[Engine], _Scored], *, permit: Permit, gone: Watch) -> _Scored:
        future = self._thread.submit(job)
        future.add_done_callback(self._count_failure)  # Also where nobody waits for the answer any more.
        try:
            return await result_while_wanted(future, permit=permit, gone=gone)
        except ValueError as error:  # Raised while scoring, so it speaks of the caller's row.
            raise _as_invalid_request(error) from None

    def _count_failure(self, future: Future[_Scored]) -> None:
        if not future.cancelled() and isinstance(future.exception(), OutOfMemory):
            self._metrics.count_out_of_memory()

    def _direct(self, engine: Engine, row: Row) -> _Scored:
        """Runs on the model thread."""
        before = engine.evaluated_tokens
        result = score_direct(row, engine=engine, max_tokens=self._max_tokens)
        phases = {phase: float(result[key]) for phase, key in _DIRECT_PHASES.items()}  # type: ignore[arg-type]  # Seconds.
        tokens = engine.evaluated_tokens - before
        self._metrics.count_call(scorer="direct", rows=1, tokens=tokens, phases=phases)
        return [result], {}

    def _shared(self, engine: Engine, rows: Sequence[Row]) -> _Scored:
        """Runs on the model thread."""
        before = engine.evaluated_tokens
        results, timing = score_shared(rows, engine=engine, max_tokens=self._max_tokens)
        phases = {phase: timing[key] for phase, key in _SHARED_PHASES.items()}
        tokens = engine.evaluated_tokens - before
        self._metrics.count_call(scorer="shared", rows=len(rows), tokens=tokens, phases=phases)
        return results, timing


def _as_invalid_request(error: ValueError) -> InvalidRequest:
    return error if isinstance(error, InvalidRequest) else InvalidRequest(shorten(str(error), limit=200))
