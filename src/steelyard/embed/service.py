"""The embedding service: texts to tokens, tokens to vectors, vectors to an answer; and nothing once nobody waits.

Tokens are made, and answers written, on threads of their own: both take tens of milliseconds for a large request, in
which the event loop must go on and the model must not wait.
"""

from __future__ import annotations

import asyncio
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from steelyard.embed.domain.answers import Usage, answer_text
from steelyard.embed.domain.errors import EmbedError, InvalidRequest
from steelyard.embed.domain.requests import refuse_too_long, too_long
from steelyard.web.departed import while_wanted

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from steelyard.embed.domain.ports import Tokens, Vector
    from steelyard.embed.domain.requests import EmbedRequest, Rules
    from steelyard.embed.metrics import Metrics
    from steelyard.embed.worker import Worker
    from steelyard.web.departed import Watch

T = TypeVar("T")


@dataclass(frozen=True)
class Tokenized:
    """A request's tokens, and the places of the inputs that were cut."""

    rows: Sequence[Tokens]
    truncated: tuple[int, ...]


class EmbeddingService:
    """Embeds requests."""

    def __init__(self, worker: Worker, *, rules: Rules, metrics: Metrics) -> None:
        self.rules = rules
        self._worker = worker
        self._metrics = metrics
        self._tokenizing = ThreadPoolExecutor(max_workers=1, thread_name_prefix="tokenize")
        self._rendering = ThreadPoolExecutor(max_workers=1, thread_name_prefix="render")

    async def embed(self, request: EmbedRequest, *, gone: Watch) -> str:
        """Return the answer's JSON; raises ClientGone once *gone*() ends, or an EmbedError.

        What still waits, for a thread or the model, when the client leaves is never done.
        """
        started = time.monotonic()
        try:
            answer = await while_wanted(asyncio.ensure_future(self._embed(request)), gone=gone)
        except EmbedError as error:
            if not isinstance(error, InvalidRequest):
                self._metrics.count_failure(error.code)
            raise
        self._metrics.count_phase("total", time.monotonic() - started)
        return answer

    def close(self) -> None:
        """Let what runs on the threads end, and drop the rest."""
        for executor in (self._tokenizing, self._rendering):
            executor.shutdown(wait=True, cancel_futures=True)

    async def _embed(self, request: EmbedRequest) -> str:
        tokenized = await self._timed("tokenize", self._tokenizing, lambda: self._tokenize(request))
        vectors = await self._vectors(tokenized.rows)
        usage = Usage(tokens=sum(map(len, tokenized.rows)), truncated=tokenized.truncated)
        self._metrics.count_inputs(inputs=len(vectors), truncated=len(usage.truncated))
        model = self.rules.identity.model
        return await self._timed(
            "render",
            self._rendering,
            lambda: answer_text(vectors, model=model, usage=usage, is_base64=request.is_base64),
        )

    def _tokenize(self, request: EmbedRequest) -> Tokenized:
        tokenizer, limit = self._worker.runtime.tokenizer, self.rules.identity.max_tokens
        rows = tokenizer.encode(request.texts)
        counts = [len(row) for row in rows]
        if not request.truncates:
            refuse_too_long(counts, limit=limit)
        cut = too_long(counts, limit=limit)
        for index in cut:
            rows[index] = tokenizer.cut(request.texts[index])
        return Tokenized(rows, tuple(cut))

    async def _vectors(self, rows: Sequence[Tokens]) -> list[Vector]:
        submitted = time.monotonic()
        job = self._worker.submit(rows)
        vectors = await asyncio.wrap_future(job.future)
        self._metrics.count_phase("wait", (job.started or submitted) - submitted)
        return vectors

    async def _timed(self, phase: str, executor: ThreadPoolExecutor, work: Callable[[], T]) -> T:
        def timed() -> T:
            started = time.monotonic()
            try:
                return work()
            finally:
                self._metrics.count_phase(phase, time.monotonic() - started)

        return await asyncio.wrap_future(executor.submit(timed))
