"""Chat models on torch: Qwen3.5 and its like in BF16 on a card, any of them in FP32 on a CPU.

A prefix is a transformers cache. Each batch of suffixes gets a copy of it with one row per suffix, and the shorter
suffixes are filled up on the right, where a causal model lets nothing read them. The cache of a hybrid model holds a
recurrent state beside keys and values: it can be neither cropped nor repeated, but its rows can be selected, as beam
search does, and selecting row 0 many times branches it.
"""

from __future__ import annotations

import copy
import time
from typing import TYPE_CHECKING, Any, TypeVar

import torch

from steelyard.decide.domain.errors import OutOfMemory
from steelyard.decide.domain.ports import Scorers, Suffix, SuffixLogits, Traits
from steelyard.decide.engines.card_memory import out_of_memory_text
from steelyard.decide.engines.torch_loading import load
from steelyard.decide.engines.torch_states import ignored_states

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from types import TracebackType

    from steelyard.decide.engines.torch_loading import TorchSource

T = TypeVar("T")
# The largest gap between a direct and a shared probability. BF16 rounds differently with another batch shape, FP32 by
# nothing visible; docs/adr/0006 has the measurements that these leave room over.
TOLERANCES = {"bfloat16": 0.1, "float32": 0.001}
# Memory sets the size of a batch, by halving; this bound only keeps one call's tensors from being absurd.
ROWS_PER_BATCH = 1024
_PROBE = range(1, 9)  # Tokens that every vocabulary has.


class TorchEngine:
    """One chat model, loaded."""

    name = "torch"

    def __init__(self, source: TorchSource) -> None:
        """Load *source*; raises ValueError or OSError in one sentence where that cannot be."""
        loaded = load(source)
        self.model: Mapping[str, object] = loaded.facts
        self.tokenizer = loaded.tokenizer
        self.evaluated_tokens = 0
        self.scorers: Scorers | None = None
        self.traits = Traits(
            name=self.name,
            is_model=True,
            rows_per_batch=ROWS_PER_BATCH,
            tolerance=TOLERANCES[str(loaded.facts["dtype"])],
        )
        self.serving_config: Mapping[str, object] = {"engine": self.name, "rows_per_batch": ROWS_PER_BATCH}
        self._model = loaded.model
        self._memory = loaded.memory
        self._check_states()

    @property
    def peak_gpu_bytes(self) -> int | None:
        """The most memory that torch has reserved on the card; None on a CPU."""
        return self._memory.peak_bytes

    def forward(self, tokens: Sequence[int], slots: Sequence[int]) -> list[float]:
        """Return the logits of *slots* after *tokens*, from one pass without a cache."""

        def run() -> list[float]:
            output = self._model(input_ids=self._tensor([list(tokens)]), use_cache=False, logits_to_keep=1)
            self.evaluated_tokens += len(tokens)
            return _chosen(output.logits[0, -1], slots)

        return self.guarded(run)

    def prefill(self, tokens: Sequence[int]) -> TorchPrefix:
        """Run *tokens* once and keep their cache."""

        def run() -> Any:
            output = self._model(input_ids=self._tensor([list(tokens)]), use_cache=True, logits_to_keep=1)
            self._memory.synchronize()
            self.evaluated_tokens += len(tokens)
            if output.cache is None:
                name = type(self._model).__name__
                raise RuntimeError(f"{name} keeps no state of a prefix; decisions need a causal model")
            return output.cache

        return TorchPrefix(self, self.guarded(run))

    def score_suffixes(self, cache: Any, suffixes: Sequence[Suffix]) -> SuffixLogits:
        """Score *suffixes* after *cache*, which stays as it is; raises OutOfMemory where they do not fit."""
        width = max(len(suffix.tokens) for suffix in suffixes)
        padded = len(suffixes) * width
        self._memory.check_room(cache, rows=len(suffixes), width=width, config=self._model.config)

        def run() -> SuffixLogits:
            started = time.perf_counter()
            branches = self._branched(cache, len(suffixes))
            replicated = time.perf_counter()
            logits = self._run_suffixes(branches, suffixes, width)
            self.evaluated_tokens += padded
            return SuffixLogits(
                logits=logits,
                replicate_seconds=replicated - started,
                forward_seconds=time.perf_counter() - replicated,
                padded_tokens=padded,
            )

        return self.guarded(run)

    def settle(self) -> None:
        """Take what the card holds now as the baseline of `tidy`."""
        self._memory.settle()

    def tidy(self, *, failed: bool) -> None:
        """Give unused memory back to the card after a failure, or after much growth."""
        self._memory.tidy(failed=failed)

    def close(self) -> None:
        """Drop the model and give its memory back."""
        self._model = None
        self._memory.close()

    def guarded(self, run: Callable[[], T]) -> T:
        """Return *run*(). Where memory runs out in it, raise OutOfMemory with no link to the cause.

        A chained exception keeps the frames of the failed call, and so its tensors, alive: the error is raised only
        after its cause is gone.
        """
        try:
            with torch.inference_mode():
                return run()
        except (RuntimeError, MemoryError) as error:
            reason = out_of_memory_text(error)
            if reason is None:
                raise
        raise OutOfMemory(reason)

    def _check_states(self) -> None:
        """Raise ValueError where the model ignores a recurrent state of its prefix; see `torch_states`."""
        with self.prefill(_PROBE) as prefix:
            ignored = self.guarded(lambda: ignored_states(prefix.cache, score=self._score_probe))
        if ignored:
            raise ValueError(
                f"SEMIF_MODEL: {type(self._model).__name__} ignores the {' and '.join(ignored)} of a prefilled prefix "
                "in this version of transformers, so shared answers would be wrong; serve another model"
            )

    def _score_probe(self, cache: Any) -> list[list[float]]:
        return self.score_suffixes(cache, [Suffix(tokens=_PROBE[:2], slots=_PROBE)]).logits

    def _tensor(self, rows: Sequence[Sequence[int]]) -> torch.Tensor:
        """Return *rows*, all of one length, as (rows, length) on the model's device."""
        return torch.tensor(rows, dtype=torch.long, device=self._model.device)

    def _branched(self, cache: Any, rows: int) -> Any:
        branches = copy.deepcopy(cache)  # Selecting rows replaces the tensors of the cache it is called on.
        branches.reorder_cache(torch.zeros(rows, dtype=torch.long, device=self._model.device))
        self._memory.synchronize()
        return branches

    def _run_suffixes(self, branches: Any, suffixes: Sequence[Suffix], width: int) -> list[list[float]]:
        pad = self.tokenizer.pad_token
        rows = [[*suffix.tokens, *[pad] * (width - len(suffix.tokens))] for suffix in suffixes]
        ends = [[len(suffix.tokens) - 1] for suffix in suffixes]
        output = self._model(
            input_ids=self._tensor(rows), cache=branches, use_cache=True, logits_to_keep=self._tensor(ends)
        )
        return [_chosen(row, suffix.slots) for row, suffix in zip(output.logits[:, 0], suffixes, strict=True)]


class TorchPrefix:
    """The cache of a prefix, in its engine's memory."""

    def __init__(self, engine: TorchEngine, cache: Any) -> None:
        self._engine = engine
        self._cache = cache

    @property
    def cache(self) -> Any:
        """The transformers cache; None once it is closed."""
        return self._cache

    def score(self, suffixes: Sequence[Suffix]) -> SuffixLogits:
        """Run *suffixes* in one padded batch."""
        if self._cache is None:
            raise RuntimeError("this prefix is closed")
        return self._engine.score_suffixes(self._cache, suffixes)

    def close(self) -> None:
        """Drop the cache."""
        self._cache = None

    def __enter__(self) -> TorchPrefix:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _chosen(logits: torch.Tensor, slots: Sequence[int]) -> list[float]:
    """Return the FP32 logits of *slots* out of *logits*, which has one for each token of the vocabulary."""
    return [float(value) for value in logits[list(slots)].float().tolist()]
