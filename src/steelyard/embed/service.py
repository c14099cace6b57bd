"""The embedding service: texts to tokens, tokens to vectors, vectors to an answer; and nothing once nobody waits.

Tokens are made, and answers written, on threads of their own: both take long for a large request, and meanwhile the
event loop must go on and the model must not wait. Tokens are made in portions, between which requests take turns.
"""

from __future__ import annotations

import asyncio
import functools
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeVar

from steelyard.embed.domain.answers import Usage, answer_text
from steelyard.embed.domain.errors import EmbedError, InvalidRequest
from steelyard.embed.domain.requests import portions, refuse_too_long, too_long
from steelyard.web.departed import while_wanted

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from steelyard.embed.domain.ports import Tokens, Vector
    from steelyard.embed.domain.requests import EmbedRequest, Rules
    from steelyard.embed.metrics import Metrics
    from steelyard.embed.worker import Worker
    from steelyard.web.departed import Watch

T = TypeVar("T")


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
        try:
            with self._timed("total"):
                return await while_wanted(asyncio.ensure_future(self._embed(request)), gone=gone)
        except EmbedError as error:
            if not isinstance(error, InvalidRequest):
                self._metrics.count_failure(error.code)
            raise

    def close(self) -> None:
        """Let what runs on the threads end, and drop the rest."""
        for executor in (self._tokenizing, self._rendering):
            executor.shutdown(wait=True, cancel_futures=True)

    async def _embed(self, request: EmbedRequest) -> str:
        with self._timed("tokenize"):
            rows, truncated = await self._tokenize(request)
        vectors = await self._vectors(rows)
        usage = Usage(tokens=sum(map(len, rows)), truncated=truncated)
        self._metrics.count_inputs(inputs=len(vectors), truncated=len(truncated))
        with self._timed("render"):
            write = functools.partial(answer_text, model=self.rules.identity.model, usage=usage)
            return await _on(self._rendering, lambda: write(vectors, is_base64=request.is_base64))

    async def _tokenize(self, request: EmbedRequest) -> tuple[list[Tokens], tuple[int, ...]]:
        """Return the tokens of each text, and the places of those that were cut."""
        rows: list[Tokens] = []
        cut = set(request.cut)
        for portion in portions(request.texts):
            work = functools.partial(self._tokenize_portion, request, portion)
            some, cut_here = await _on(self._tokenizing, work)
            rows += some
            cut |= cut_here
        return rows, tuple(sorted(cut))

    def _tokenize_portion(self, request: EmbedRequest, portion: slice) -> tuple[list[Tokens], set[int]]:
        """Runs on the tokenizing thread."""
        tokenizer, limit = self._worker.runtime.tokenizer, self.rules.identity.max_tokens
        texts, first = request.texts[portion], portion.start
        rows = tokenizer.encode(texts)
        counts = [len(row) for row in rows]
        if not request.truncates:
            refuse_too_long(counts, limit=limit, first=first)
        places = too_long(counts, limit=limit)
        for place in places:
            rows[place] = tokenizer.cut(texts[place])
        return rows, {first + place for place in places}

    async def _vectors(self, rows: Sequence[Tokens]) -> list[Vector]:
        submitted = time.monotonic()
        job = self._worker.submit(rows)
        vectors = await asyncio.wrap_future(job.future)
        self._metrics.count_phase("wait", (job.started or submitted) - submitted)
        return vectors

    @contextmanager
    def _timed(self, phase: str) -> Iterator[None]:
        started = time.monotonic()
        yield
        self._metrics.count_phase(phase, time.monotonic() - started)


async def _on(executor: ThreadPoolExecutor, work: Callable[[], T]) -> T:
    """Return what *work* returns on the executor's thread; a cancelled caller's work is dropped if it waits."""
    return await asyncio.wrap_future(executor.submit(work))
