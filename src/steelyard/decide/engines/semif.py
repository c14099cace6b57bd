"""SemIf's own scorers, `semif_phase1`, over a model that the torch engine loaded.

The package is on no index: an operator installs it from its repository, without its dependencies, whose pins are older
than ours. Its `direct.score` and `shared.score_shared` are used as they are, so its prompts, checks and error texts are
its own, and it runs all rows of a shared call in one batch: out of memory is not answered by halving. Its prefix is its
own too, with which it refuses some states that score directly. Loading, the start rules, the cap and what is given back
after a failure are those of the torch engine.
"""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any, cast

from steelyard.decide.domain.errors import InvalidRequest, ScoringFailed
from steelyard.decide.domain.prompt import SEMIF_COMMIT
from steelyard.decide.engines.torch_engine import TorchEngine
from steelyard.hall.texts import shorten

if TYPE_CHECKING:
    from collections.abc import Sequence, Sized

    from steelyard.decide.domain.results import Result, Timing
    from steelyard.decide.domain.rows import Row
    from steelyard.decide.engines.torch_loading import TorchSource

_LONGEST_MESSAGE = 200  # SemIf quotes a row's id whole, however long.
_NOT_FINITE = "Need at least two finite scores"


class SemifEngine(TorchEngine):
    """A model that SemIf's scorers judge with."""

    name = "semif"

    def __init__(self, source: TorchSource) -> None:
        """Load *source*; raises ImportError where SemIf is not installed, or what the torch engine raises."""
        direct, shared = _semif_modules()
        super().__init__(source)
        # SemIf calls the cache by the name that transformers 5.24 still takes and 5.40 will not.
        warnings.filterwarnings("ignore", message="`past_key_values` is deprecated", category=FutureWarning)
        self.scorers = SemifScorers(self, score=direct.score, score_shared=shared.score_shared)

    @property
    def native_model(self) -> Any:
        """The transformers model."""
        return self._model


class SemifScorers:
    """SemIf's two functions, with rows as it takes them and errors as we name them."""

    def __init__(self, engine: SemifEngine, *, score: Any, score_shared: Any) -> None:
        self._engine = engine
        self._score = score
        self._score_shared = score_shared

    def score_direct(self, row: Row, *, max_tokens: int) -> Result:
        """Return what SemIf's `direct.score` gives for *row*."""
        result: Result = self._called(self._score, _as_semif(row), max_tokens)
        _check([result], [row])
        self._engine.evaluated_tokens += result["input_tokens"]  # type: ignore[operator]  # An integer.
        return result

    def score_shared(self, rows: Sequence[Row], *, max_tokens: int) -> tuple[list[Result], Timing]:
        """Return what SemIf's `shared.score_shared` gives for *rows*."""
        results, timing = self._called(self._score_shared, [_as_semif(row) for row in rows], max_tokens)
        _check(results, rows)
        self._engine.evaluated_tokens += timing["prefix_tokens"] + timing["padded_suffix_tokens"]
        return results, timing

    def _called(self, function: Any, rows: Any, max_tokens: int) -> Any:
        engine = self._engine
        try:
            return engine.guarded(
                lambda: function(
                    engine.native_model, engine.tokenizer.native, rows, dict(engine.model), max_tokens=max_tokens
                )
            )
        except ValueError as error:
            text = str(error)
        if text == _NOT_FINITE:  # SemIf blames the row for what is the model's fault.
            raise ScoringFailed("The model gave a logit that is not finite; nothing was decided")
        raise InvalidRequest(shorten(text, limit=_LONGEST_MESSAGE))


def _check(results: Sequence[Result], rows: Sequence[Row]) -> None:
    """Raise ScoringFailed unless *results* answer *rows*, option for option; what they say is passed through."""
    answered = [(result["id"], result["option_ids"], *map(len, _numbers_of(result))) for result in results]
    if answered != [(row.id, row.option_ids, *[len(row.options)] * 2) for row in rows]:
        raise ScoringFailed("SemIf's scorer gave results of other rows or options than it was asked for")


def _numbers_of(result: Result) -> tuple[Sized, Sized]:
    return cast("tuple[Sized, Sized]", (result["probabilities"], result["option_logits"]))


def _semif_modules() -> tuple[Any, Any]:
    try:
        from semif_phase1 import direct, shared  # noqa: PLC0415  # Installed by the operator, or not at all.
    except ImportError as error:
        raise ImportError(
            "SEMIF_ENGINE is semif, but the package semif_phase1 is not installed; install it with pip's --no-deps "
            f"from SemIf's repository at commit {SEMIF_COMMIT}, or use SEMIF_ENGINE=torch ({error})"
        ) from None
    return direct, shared


def _as_semif(row: Row) -> dict[str, object]:
    options = [{"id": option.id, "description": option.description} for option in row.options]
    return {"id": row.id, "state": row.state, "question": row.question, "options": options}
