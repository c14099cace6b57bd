"""GGUF models on llama.cpp, on CPU or GPU.

A prefix lives in llama.cpp's sequence 0; each suffix gets a sequence of its own, to which the prefix's cells are
copied by reference (a recurrent state by value). All suffixes of a batch go through one `llama_decode`.
"""

from __future__ import annotations

import contextlib
import os
import time
from typing import TYPE_CHECKING, NamedTuple

from steelyard.decide.domain.errors import OutOfMemory
from steelyard.decide.domain.ports import SuffixLogits, Traits
from steelyard.decide.engines import llama_abi as abi
from steelyard.decide.engines.gguf_files import checked_sha256
from steelyard.decide.engines.llama_loading import cause, device_name, library, load_model
from steelyard.decide.engines.llama_tokenizer import LlamaTokenizer

if TYPE_CHECKING:
    import collections
    from collections.abc import Mapping, Sequence
    from types import TracebackType

    from steelyard.decide.domain.ports import Suffix
    from steelyard.decide.engines.llama_loading import LlamaSource

# The largest gap between a direct and a shared probability: llama.cpp's CPU kernels round differently with another
# batch shape. docs/adr/0003 has the measurements that this leaves room over.
TOLERANCE = 0.1
ROWS_PER_BATCH = 32
# Cells for suffixes beside the longest prefix, so that one full row always fits and many short ones fit together.
_SPARE_CELLS = 4096
_NO_CACHE_SLOT, _ALLOCATION_FAILED = 1, -2


class _Token(NamedTuple):
    """One token of a batch: where it stands, in which sequence, and whether its logits are wanted."""

    token: int
    position: int
    sequence: int
    is_read: bool


class LlamaCppEngine:
    """One GGUF model, loaded."""

    scorers = None
    peak_gpu_bytes = None  # llama.cpp does not tell.

    def __init__(self, source: LlamaSource) -> None:
        """Load *source*; raises ValueError or ImportError in one sentence where that cannot be."""
        self._library, errors = library()
        sha256 = checked_sha256(source.path, name=source.name, expected=source.sha256)
        self._resources = contextlib.ExitStack()  # Freed in reverse order: batch, context, model.
        self._model = load_model(self._library, source, errors)
        self._resources.callback(self._library.llama_model_free, self._model)
        try:
            self._context = self._new_context(source, errors)
            self._resources.callback(self._library.llama_free, self._context)
            self.tokenizer = LlamaTokenizer(self._library, self._model)
        except ValueError:
            self.close()
            raise
        self._memory = self._library.llama_get_memory(self._context)
        self._held: LlamaPrefix | None = None
        self._batch = self._library.llama_batch_init(self._cells, 0, 1)
        self._resources.callback(self._library.llama_batch_free, self._batch)
        self.evaluated_tokens = 0
        self.traits = Traits(
            name="llamacpp",
            is_model=True,
            rows_per_batch=ROWS_PER_BATCH,
            tolerance=TOLERANCE,
        )
        self.model: Mapping[str, object] = {
            "source": source.name,
            "revision": source.revision,
            "dtype": self._library.llama_ftype_name(self._library.llama_model_ftype(self._model)).decode("utf-8"),
            "device": device_name(self._library, source.device),
            "xllamacpp_version": abi.PINNED_VERSION,
            "llama_cpp_version": self._library.llama_version().decode("utf-8"),
            "gguf_sha256": sha256,
        }
        self.serving_config: Mapping[str, object] = {
            "engine": "llamacpp",
            "rows_per_batch": ROWS_PER_BATCH,
            "cache_cells": self._cells,
            "threads": self._threads,
        }

    def forward(self, tokens: Sequence[int], slots: Sequence[int]) -> list[float]:
        """Return the logits of *slots* after *tokens*, from an empty cache."""
        self._empty()
        last = len(tokens) - 1
        self._decode([_Token(token, i, 0, is_read=i == last) for i, token in enumerate(tokens)])
        return self._read(last, slots)

    def prefill(self, tokens: Sequence[int]) -> LlamaPrefix:
        """Run *tokens* into an empty cache. One prefix lives at a time: the next call here ends it."""
        self._empty()
        self._decode([_Token(token, i, 0, is_read=False) for i, token in enumerate(tokens)])
        self._held = LlamaPrefix(self, len(tokens))
        return self._held

    def score_suffixes(self, prefix: LlamaPrefix, suffixes: Sequence[Suffix]) -> SuffixLogits:
        """Score *suffixes* after *prefix*, which must still be held; raises OutOfMemory where they do not fit."""
        if self._held is not prefix:
            raise RuntimeError("this prefix is closed, or a later call took its place in the cache")
        count = sum(len(suffix.tokens) for suffix in suffixes)
        if prefix.length + count > self._cells or len(suffixes) > ROWS_PER_BATCH:
            raise OutOfMemory(f"{len(suffixes)} rows do not fit into the cache of {self._cells} tokens together")
        started = time.perf_counter()
        for sequence in range(1, len(suffixes) + 1):
            self._library.llama_memory_seq_cp(self._memory, 0, sequence, -1, -1)
        replicated = time.perf_counter()
        try:
            logits = self._run_suffixes(prefix.length, suffixes)
        finally:
            ended = time.perf_counter()
            for sequence in range(1, len(suffixes) + 1):
                self._library.llama_memory_seq_rm(self._memory, sequence, -1, -1)
        return SuffixLogits(
            logits=logits,
            replicate_seconds=replicated - started + (time.perf_counter() - ended),
            forward_seconds=ended - replicated,
            padded_tokens=count,
        )

    def release(self, prefix: LlamaPrefix) -> None:
        """Empty the cache if it still holds *prefix*."""
        if self._held is prefix:
            self._empty()

    def _empty(self) -> None:
        self._held = None
        self._library.llama_memory_clear(self._memory, True)

    def settle(self) -> None:
        """Do nothing: the cache was allocated whole at the start and does not grow."""

    def tidy(self, *, failed: bool) -> None:
        """Empty the cache after a call that failed in the middle; otherwise there is nothing to give back."""
        if failed:
            self._empty()

    def close(self) -> None:
        """Free the context and the model."""
        self._resources.close()

    def _new_context(self, source: LlamaSource, errors: collections.deque[str]) -> int:
        trained = self._library.llama_model_n_ctx_train(self._model)
        if source.max_tokens > trained:
            raise ValueError(
                f"SEMIF_MAX_TOKENS is {source.max_tokens}, but {source.name} reads {trained} tokens at most; "
                f"set SEMIF_MAX_TOKENS={trained} or lower"
            )
        params = self._library.llama_context_default_params()
        self._cells = source.max_tokens + max(source.max_tokens, _SPARE_CELLS)
        params.n_ctx = params.n_batch = self._cells
        params.n_seq_max = params.n_outputs_max = ROWS_PER_BATCH + 1  # Each row's, and the prefix's own.
        params.kv_unified = True  # All sequences share the cells, so a branch costs none.
        self._threads = params.n_threads = params.n_threads_batch = source.threads or len(os.sched_getaffinity(0))
        params.offload_kqv = params.op_offload = source.device == "cuda"
        context = self._library.llama_init_from_model(self._model, params)
        if context is None:
            raise ValueError(
                f"llama.cpp had no room for a cache of {self._cells} tokens; lower SEMIF_MAX_TOKENS{cause(errors)}"
            )
        return int(context)

    def _run_suffixes(self, length: int, suffixes: Sequence[Suffix]) -> list[list[float]]:
        batch: list[_Token] = []
        ends = []
        for sequence, suffix in enumerate(suffixes, start=1):
            last = len(suffix.tokens) - 1
            batch += [_Token(t, length + i, sequence, is_read=i == last) for i, t in enumerate(suffix.tokens)]
            ends.append(len(batch) - 1)
        self._decode(batch)
        return [self._read(end, suffix.slots) for end, suffix in zip(ends, suffixes, strict=True)]

    def _decode(self, tokens: Sequence[_Token]) -> None:
        if not tokens:
            return
        if len(tokens) > self._cells:  # llama.cpp would write past the end of its arrays.
            raise OutOfMemory(f"{len(tokens)} tokens do not fit into the cache of {self._cells}")
        batch = self._batch
        batch.n_tokens = len(tokens)
        for i, entry in enumerate(tokens):
            batch.token[i], batch.pos[i], batch.logits[i] = entry.token, entry.position, entry.is_read
            batch.n_seq_id[i] = 1
            batch.seq_id[i][0] = entry.sequence
        status = self._library.llama_decode(self._context, batch)
        if status in (_NO_CACHE_SLOT, _ALLOCATION_FAILED):
            raise OutOfMemory(f"llama.cpp had no memory for a batch of {len(tokens)} tokens")
        if status != 0:
            raise RuntimeError(f"llama_decode failed with status {status} on a batch of {len(tokens)} tokens")
        self.evaluated_tokens += len(tokens)

    def _read(self, position: int, slots: Sequence[int]) -> list[float]:
        logits = self._library.llama_get_logits_ith(self._context, position)
        if not logits:
            raise RuntimeError(f"llama.cpp kept no logits for position {position} of the batch")
        return [logits[slot] for slot in slots]


class LlamaPrefix:
    """A prefix in sequence 0 of its engine."""

    def __init__(self, engine: LlamaCppEngine, length: int) -> None:
        self._engine = engine
        self.length = length

    def score(self, suffixes: Sequence[Suffix]) -> SuffixLogits:
        """Run *suffixes* in one batch."""
        return self._engine.score_suffixes(self, suffixes)

    def close(self) -> None:
        """Empty the cache, unless a later call has taken it."""
        self._engine.release(self)

    def __enter__(self) -> LlamaPrefix:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
