"""From settings to a warm engine, or a refusal in one sentence. Nothing listens before this has succeeded."""

from __future__ import annotations

import logging
import re
import shlex
from pathlib import Path
from typing import TYPE_CHECKING

from steelyard.decide.domain.direct import score_direct
from steelyard.decide.domain.rows import Option, Row
from steelyard.decide.domain.shared import score_shared
from steelyard.decide.engines.fake import FakeEngine
from steelyard.decide.engines.llama_loading import LlamaSource
from steelyard.decide.engines.llamacpp import LlamaCppEngine
from steelyard.decide.settings import DEFAULT_MODEL, BadSetting
from steelyard.hall.errors import SteelyardError
from steelyard.hall.texts import shorten
from steelyard.models import catalogue, store
from steelyard.models.errors import ModelsError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from steelyard.decide.domain.ports import Engine
    from steelyard.decide.settings import Settings

logger = logging.getLogger("steelyard.decide")
_HUB_ID = re.compile(r"[\w.-]+/[\w.-]+", re.ASCII)
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
        raise StartRefused(str(error) or "there was no memory for the model") from None
    try:
        _check_memory_cap(engine, settings)
        check_agreement(engine)
        engine.settle()
    except Exception as error:
        engine.close()
        if isinstance(error, BadSetting | StartRefused):
            raise
        raise StartRefused(f"the warm-up decision does not score: {error}") from None
    return engine


def build_engine(settings: Settings, *, environ: Mapping[str, str]) -> Engine:
    """Return the engine for SEMIF_MODEL and SEMIF_ENGINE, loaded; raises ValueError or ImportError."""
    if settings.engine in ("torch", "semif"):
        raise BadSetting(f"SEMIF_ENGINE {settings.engine} is not part of this release; use auto or llamacpp")
    if settings.model == "fake":
        if settings.engine != "auto":
            raise BadSetting(f"SEMIF_ENGINE {settings.engine} cannot serve SEMIF_MODEL fake; set SEMIF_ENGINE=auto")
        return FakeEngine(seconds_per_call=settings.fake_seconds)
    source = _llama_source(settings, environ)
    logger.info("Loading %s", source.path)
    return LlamaCppEngine(source)


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


def _check_memory_cap(engine: Engine, settings: Settings) -> None:
    if settings.vram_cap_gib is not None and not engine.traits.enforces_memory_cap:
        raise BadSetting(
            f"SEMIF_VRAM_CAP_GIB is set, but the {engine.traits.name} engine cannot enforce a cap; "
            "unset it, or use an engine that can"
        )


def _llama_source(settings: Settings, environ: Mapping[str, str]) -> LlamaSource:
    weights = catalogue.find(settings.model)
    if weights is None:
        path, name, sha256, revision = _own_file(settings), settings.model, None, None
    else:
        directory = settings.models_dir or store.models_dir(environ)
        path, name = store.path_of(weights, directory), weights.name
        sha256, revision = weights.sha256, weights.hub_revision
        if not path.is_file():
            option = f" --models-dir {shlex.quote(str(directory))}" if settings.models_dir else ""
            raise BadSetting(
                f"SEMIF_MODEL {settings.model} is not pulled, it is not in {directory}; "
                f"run: steelyard models pull {weights.name}{option}"
            )
    if settings.revision not in (None, revision):
        raise BadSetting(f"SEMIF_REVISION is for hub ids; {shorten(name, limit=200)} is one file, so unset it")
    return LlamaSource(
        path=path,
        name=name,
        device=settings.device,
        max_tokens=settings.max_tokens,
        sha256=sha256,
        revision=revision,
        threads=settings.threads,
    )


def _own_file(settings: Settings) -> Path:
    model, path = settings.model, Path(settings.model)
    if path.suffix.lower() == ".gguf":
        if not path.is_file():
            raise BadSetting(f"SEMIF_MODEL {shorten(model, limit=200)} does not exist or is no file")
        return path
    if path.is_dir() or _HUB_ID.fullmatch(model):
        if settings.revision is None and not path.is_dir():
            raise BadSetting(
                f"SEMIF_REVISION is required for {shorten(model, limit=200)}: set it to the exact commit to load"
            )
        which = "the default model" if model == DEFAULT_MODEL else shorten(model, limit=200)
        raise BadSetting(
            f"SEMIF_MODEL: {which} needs the torch engine, which is not part of this release; "
            "set SEMIF_MODEL to embedded, a pulled model's name or a .gguf file"
        )
    known = ", ".join(weights.name for weights in catalogue.CATALOGUE)
    raise BadSetting(
        f"SEMIF_MODEL {shorten(model)} is no hub id, folder, .gguf file or known name; names: embedded, {known}, fake"
    )
