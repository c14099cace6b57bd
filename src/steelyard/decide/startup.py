"""From settings to a warm engine, or a refusal in one sentence. Nothing listens before this has succeeded."""

from __future__ import annotations

from typing import TYPE_CHECKING

from steelyard.decide.domain.direct import score_direct
from steelyard.decide.domain.rows import Option, Row
from steelyard.decide.domain.shared import score_shared
from steelyard.decide.loading import build_engine
from steelyard.decide.settings import BadSetting
from steelyard.hall.errors import SteelyardError
from steelyard.hall.texts import shorten
from steelyard.models.errors import ModelsError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from steelyard.decide.domain.ports import Engine
    from steelyard.decide.settings import Settings

# The warm-up is no caller's row, so the operator's limit does not bind it.
_WARM_UP_TOKENS = 4096
WARM_UP_ROW = Row(
    id="warm-up",
    state="The parcel was handed over on Monday. The recipient signed for it.",
    question="Has the parcel been delivered?",
    options=(Option(id="yes", description="Yes, it was delivered"), Option(id="no", description="No, it was not")),
)


class StartRefused(SteelyardError):
    """The server will not serve with this model."""

    code = "start_refused"


def start_engine(settings: Settings, *, environ: Mapping[str, str]) -> Engine:
    """Load the engine that *settings* name and score the warm-up row; raises BadSetting or StartRefused."""
    try:
        engine = build_engine(settings, environ=environ)
    except ImportError as error:
        raise StartRefused(f"SEMIF_MODEL {shorten(settings.model)}: {error}") from None
    except OSError as error:
        raise StartRefused(
            f"SEMIF_MODEL {shorten(settings.model, limit=200)} cannot be read: {error.strerror or error}"
        ) from None
    except (ValueError, RuntimeError, MemoryError, ModelsError) as error:
        if isinstance(error, BadSetting):
            raise
        raise StartRefused(_in_one_line(error) or "there was no memory for the model") from None
    try:
        check_agreement(engine)
        engine.settle()
    except Exception as error:
        engine.close()
        if isinstance(error, BadSetting | StartRefused):
            raise
        reason = _in_one_line(error) or type(error).__name__
        raise StartRefused(f"the warm-up decision does not score: {reason}") from None
    return engine


def _in_one_line(error: Exception) -> str:
    """Return what *error* says; a card's errors say it in several lines."""
    return " ".join(str(error).split())


def warm_up(engine: Engine) -> None:
    """Score the warm-up row once; raises whatever the engine raises."""
    score_direct(WARM_UP_ROW, engine=engine, max_tokens=_WARM_UP_TOKENS)


def check_agreement(engine: Engine) -> None:
    """Raise StartRefused unless the warm-up row scores alike alone and after a prefilled state.

    Some library versions ignore the prefilled state of a hybrid model, and answer all the same.
    """
    direct = score_direct(WARM_UP_ROW, engine=engine, max_tokens=_WARM_UP_TOKENS)
    (shared,), _timing = score_shared([WARM_UP_ROW], engine=engine, max_tokens=_WARM_UP_TOKENS)
    pairs = list(zip(direct["probabilities"], shared["probabilities"], strict=True))  # type: ignore[call-overload]  # Lists.
    # Asking whether all are close also refuses NaN, which a largest gap would hide.
    if not all(abs(left - right) <= engine.traits.tolerance for left, right in pairs):
        raise StartRefused(
            f"the {engine.traits.name} engine scores the warm-up row differently alone and after a shared state "
            f"({pairs}), beyond its tolerance of {engine.traits.tolerance}; this model or library version is not usable"
        )
