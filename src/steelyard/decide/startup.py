"""From settings to a warm engine, or a refusal in one sentence. Nothing listens before this has succeeded."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from steelyard.decide.domain.direct import score_direct
from steelyard.decide.domain.prompt import messages_of
from steelyard.decide.domain.rows import Option, Row
from steelyard.decide.domain.shared import score_shared
from steelyard.decide.loading import build_engine
from steelyard.hall.errors import SteelyardError
from steelyard.hall.settings import BadSetting
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
# The same state with a shorter and a longer rest.
WARM_UP_ROWS = (
    WARM_UP_ROW,
    replace(WARM_UP_ROW, id="warm-up 2", question="Who signed?"),
    replace(
        WARM_UP_ROW,
        id="warm-up 3",
        question="On which day of the week was the parcel handed over, if the evidence says so?",
        options=tuple(Option(id=day, description=f"It was on {day}") for day in ("Monday", "Tuesday", "Wednesday")),
    ),
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
    except Exception as error:  # Of a model library, which may raise anything on a model that it half knows.
        reason = f"{type(error).__name__}: {_in_one_line(error)}"
        raise StartRefused(f"SEMIF_MODEL {shorten(settings.model, limit=200)} cannot be served: {reason}") from None
    try:
        check_template(engine)
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
    """Raise StartRefused unless the warm-up rows score alike alone and together after a prefilled state.

    Some library versions ignore the prefilled state of a hybrid model, and answer all the same. Several rows of several
    lengths, for one alone may come out alike by chance, and has no padding.
    """
    direct = [score_direct(row, engine=engine, max_tokens=_WARM_UP_TOKENS) for row in WARM_UP_ROWS]
    shared, _timing = score_shared(WARM_UP_ROWS, engine=engine, max_tokens=_WARM_UP_TOKENS)
    pairs = [
        pair
        for one, other in zip(direct, shared, strict=True)
        for pair in zip(one["probabilities"], other["probabilities"], strict=True)  # type: ignore[call-overload]  # Lists.
    ]
    # Asking whether all are close also refuses NaN, which a largest gap would hide.
    if not all(abs(left - right) <= engine.traits.tolerance for left, right in pairs):
        raise StartRefused(
            f"the {engine.traits.name} engine scores the warm-up rows differently alone and after a shared state "
            f"({pairs}), beyond its tolerance of {engine.traits.tolerance}; this model or library version is not usable"
        )


def check_template(engine: Engine) -> None:
    """Raise StartRefused where the chat template hides the evidence or the question, so that answers mean nothing."""
    text = engine.tokenizer.render(messages_of(WARM_UP_ROW))
    if str(WARM_UP_ROW.state) not in text or WARM_UP_ROW.question not in text:
        raise StartRefused("the model's chat template does not show the user's message; serve a model whose does")
