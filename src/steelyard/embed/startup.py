"""From settings to a warm runtime, or a refusal in one sentence. Nothing listens before this has succeeded."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from steelyard.embed.domain.answers import check_finite
from steelyard.embed.loading import build_runtime
from steelyard.hall.errors import SteelyardError
from steelyard.hall.settings import BadSetting
from steelyard.hall.texts import shorten

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from steelyard.embed.domain.ports import Runtime, Vector
    from steelyard.embed.settings import Settings

# One alone, and what it is embedded with: a shorter, a longer one and one of its own length.
WARM_UP_TEXT = "The parcel was handed over on Monday."
_NEIGHBOURS = (
    "Yes.",
    "The parcel was handed over on Monday, and the recipient, who had waited for it since the week before, signed.",
    "The parcel was handed over on Friday.",
)
# The first components of the warm-up text's vector: another model, or a library that computes something else, would
# answer all the same.
_ANSWERS: Mapping[str, Sequence[float]] = {
    "all-minilm-l6-v2-int8": (0.0064, 0.02835, 0.07662, -0.01418, 0.02438, 0.05307, 0.00836, 0.00192),
    "paraphrase-minilm-l3-v2": (-0.03409, 0.01917, 0.01649, -0.09006, 0.04755, -0.02458, -0.02411, -0.00095),
}
_ANSWER_TOLERANCE = 1e-3  # Processors round differently; another model is off by a hundred times this.
_LENGTH_TOLERANCE = 1e-3


class StartRefused(SteelyardError):
    """The server will not serve with this model."""

    code = "start_refused"


def start_runtime(settings: Settings, *, environ: Mapping[str, str]) -> Runtime:
    """Load the model that *settings* name and embed the warm-up texts; raises BadSetting or StartRefused."""
    what = f"STEELYARD_EMBED_MODEL {shorten(settings.model, limit=200)}"
    try:
        runtime = build_runtime(settings, environ=environ)
    except BadSetting:
        raise
    except OSError as error:
        raise StartRefused(f"{what} cannot be read: {error.strerror or error}") from None
    except Exception as error:  # Of a model library, which may raise anything on a file that it half knows.
        raise StartRefused(f"{what} cannot be served: {_in_one_line(error)}") from None
    try:
        check_warm_up(runtime, max_rows=settings.max_batch_rows)
    except Exception as error:
        runtime.close()
        if isinstance(error, StartRefused):
            raise
        raise StartRefused(f"{what}: the warm-up text does not embed: {_in_one_line(error)}") from None
    return runtime


def _in_one_line(error: Exception) -> str:
    return " ".join(str(error).split()) or type(error).__name__


def warm_up(runtime: Runtime) -> Vector:
    """Return the warm-up text's vector, embedded alone; raises whatever the runtime raises, or EmbeddingFailed."""
    (vector,) = runtime.embed(runtime.tokenizer.encode([WARM_UP_TEXT]))
    check_finite(vector)
    return vector


def check_warm_up(runtime: Runtime, *, max_rows: int) -> None:
    """Raise StartRefused unless the warm-up vector is what the identity says, and stays so among neighbours.

    With batches of one row there are no neighbours, so a model whose vectors they move can be served so.
    """
    vector, identity = warm_up(runtime), runtime.identity
    if len(vector) != identity.dimension:
        raise StartRefused(f"the model gives vectors of {len(vector)} components, not of {identity.dimension}")
    if identity.is_normalised and abs(math.hypot(*vector) - 1) > _LENGTH_TOLERANCE:
        raise StartRefused(f"the model's vectors have the length {math.hypot(*vector):.4f}, not 1")
    answer = _ANSWERS.get(identity.model, ())
    if gap(vector[: len(answer)], answer) > _ANSWER_TOLERANCE:
        raise StartRefused("the warm-up text has another vector than it should: this library version is not usable")
    if max_rows > 1:
        _check_agreement(runtime, alone=vector)


def _check_agreement(runtime: Runtime, *, alone: Vector) -> None:
    *_others, among = runtime.embed(runtime.tokenizer.encode([*_NEIGHBOURS, WARM_UP_TEXT]))
    moved = gap(alone, among)
    # Asked so that NaN is refused too.
    if not moved <= runtime.traits.tolerance:
        raise StartRefused(
            f"the warm-up text's vector moves by {moved:.1e} with its neighbours in a batch, beyond the tolerance of "
            f"{runtime.traits.tolerance:.0e}, as models do that quantise while they run; serve it with "
            "STEELYARD_EMBED_MAX_BATCH_ROWS=1, which embeds every input alone"
        )


def gap(one: Sequence[float], other: Sequence[float]) -> float:
    """Return the largest difference between two vectors' components; NaN where one has it."""
    gaps = [abs(left - right) for left, right in zip(one, other, strict=True)]
    return math.nan if any(map(math.isnan, gaps)) else max(gaps, default=0.0)
