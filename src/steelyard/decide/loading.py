"""From settings to a loaded engine: which weights SEMIF_MODEL means, and which engine loads them.

Torch and what comes with it are imported only where an engine needs them: they take seconds, and may not be installed.
"""

from __future__ import annotations

import logging
import re
import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from steelyard.decide.engines.fake import FakeEngine
from steelyard.decide.engines.llama_loading import LlamaSource
from steelyard.decide.engines.llamacpp import LlamaCppEngine
from steelyard.hall.settings import BadSetting
from steelyard.hall.texts import shorten
from steelyard.models import catalogue, store
from steelyard.models.catalogue import Kind

if TYPE_CHECKING:
    from collections.abc import Mapping

    from steelyard.decide.domain.ports import Engine
    from steelyard.decide.settings import Settings

logger = logging.getLogger("steelyard.decide")
_HUB_ID = re.compile(r"\w[\w.-]*/\w[\w.-]*", re.ASCII)  # ./model and ../model are paths.
_CONVERTED = "dequantised"


@dataclass(frozen=True)
class Weights:
    """What SEMIF_MODEL names: a GGUF file, a folder in transformers' format, or (*path* is None) a hub id.

    *sha256* is the expected digest of a pulled file.
    """

    name: str
    path: Path | None
    sha256: str | None = None
    revision: str | None = None

    @property
    def is_gguf(self) -> bool:
        """Tell whether this is a GGUF file."""
        return self.path is not None and not self.path.is_dir()


def build_engine(settings: Settings, *, environ: Mapping[str, str]) -> Engine:
    """Return the engine for SEMIF_MODEL and SEMIF_ENGINE, loaded; raises ValueError, ImportError or OSError."""
    if settings.model == "fake":
        if settings.engine != "auto":
            raise BadSetting(f"SEMIF_ENGINE {settings.engine} cannot serve SEMIF_MODEL fake; set SEMIF_ENGINE=auto")
        _check_cap(settings, engine="fake")
        return FakeEngine(seconds_per_call=settings.fake_seconds)
    weights = find_weights(settings, environ=environ)
    engine = settings.engine
    if engine == "auto":
        engine = "llamacpp" if weights.is_gguf else "torch"
    _check_cap(settings, engine=engine)
    logger.info("Loading %s with the %s engine", weights.path or weights.name, engine)
    if engine == "llamacpp":
        return _llamacpp(weights, settings)
    return _torch(weights, settings, environ, engine=engine)


def find_weights(settings: Settings, *, environ: Mapping[str, str]) -> Weights:
    """Return what SEMIF_MODEL names; raises BadSetting where it names nothing, or a revision fits it not."""
    model = settings.model
    pulled = catalogue.find(model)
    if pulled is not None and pulled.kind is not Kind.DECISION:
        raise BadSetting(f"SEMIF_MODEL {model} is an embedding model; serve it with: steelyard embed serve")
    if pulled is not None:
        weights = _pulled(pulled, settings, environ)
    # A revision speaks of the hub, so a folder that happens to lie at the same relative path is not meant.
    elif _HUB_ID.fullmatch(model) and (settings.revision is not None or not Path(model).exists()):
        if settings.revision is None:
            raise BadSetting(
                f"SEMIF_REVISION is required for {shorten(model, limit=200)}: set it to the exact commit to load"
            )
        return Weights(name=model, path=None, revision=settings.revision)
    else:
        weights = Weights(name=model, path=_own(model))
    if settings.revision not in (None, weights.revision):
        raise BadSetting(
            f"SEMIF_REVISION is for hub ids; {shorten(weights.name, limit=200)} lies on this machine, so unset it"
        )
    return weights


def _pulled(pulled: catalogue.Model, settings: Settings, environ: Mapping[str, str]) -> Weights:
    directory = _models_dir(settings, environ)
    path = store.path_of(pulled.main, directory)
    if not path.is_file():
        option = f" --models-dir {shlex.quote(str(directory))}" if settings.models_dir else ""
        raise BadSetting(
            f"SEMIF_MODEL {settings.model} is not pulled, it is not in {directory}; "
            f"run: steelyard models pull {pulled.name}{option}"
        )
    return Weights(name=pulled.name, path=path, sha256=pulled.main.sha256, revision=pulled.main.hub_revision)


def _own(model: str) -> Path:
    path = Path(model)
    if path.is_dir():
        return path
    if path.suffix.lower() == ".gguf":
        if path.is_file():
            return path
        raise BadSetting(f"SEMIF_MODEL {shorten(model, limit=200)} does not exist or is no file")
    known = ", ".join(pulled.name for pulled in catalogue.of_kind(Kind.DECISION))
    raise BadSetting(
        f"SEMIF_MODEL {shorten(model)} is no hub id, folder, .gguf file or known name; names: embedded, {known}, fake"
    )


def _check_cap(settings: Settings, *, engine: str) -> None:
    """Refuse a cap that *engine* cannot enforce, before anything is loaded."""
    if settings.vram_cap_gib is not None and not (engine in ("torch", "semif") and settings.device == "cuda"):
        where = " on a CPU" if engine in ("torch", "semif") else ""
        raise BadSetting(
            f"SEMIF_VRAM_CAP_GIB is set, but the {engine} engine cannot enforce a cap{where}; unset it, or use the "
            "torch engine on a card"
        )


def _llamacpp(weights: Weights, settings: Settings) -> Engine:
    if not weights.is_gguf or weights.path is None:
        raise BadSetting(
            f"SEMIF_ENGINE llamacpp reads .gguf files and pulled models; {shorten(weights.name, limit=200)} needs "
            "SEMIF_ENGINE=torch"
        )
    source = LlamaSource(
        path=weights.path,
        name=weights.name,
        device=settings.device,
        max_tokens=settings.max_tokens,
        sha256=weights.sha256,
        revision=weights.revision,
        threads=settings.threads,
    )
    return LlamaCppEngine(source)


def _torch(weights: Weights, settings: Settings, environ: Mapping[str, str], *, engine: str) -> Engine:
    try:
        from steelyard.decide.engines import semif, torch_engine, torch_loading  # noqa: PLC0415  # See above.
    except ImportError as error:
        raise ImportError(
            f"the torch engine is not installed; in a checkout of steelyard run: pip install '.[torch]' ({error})"
        ) from None
    source = torch_loading.TorchSource(
        name=weights.name,
        path=weights.path,
        device=settings.device,
        max_tokens=settings.max_tokens,
        converted_dir=_models_dir(settings, environ) / _CONVERTED,
        revision=weights.revision,
        sha256=weights.sha256,
        cap_gib=settings.vram_cap_gib,
        threads=settings.threads,
    )
    return semif.SemifEngine(source) if engine == "semif" else torch_engine.TorchEngine(source)


def _models_dir(settings: Settings, environ: Mapping[str, str]) -> Path:
    return settings.models_dir or store.models_dir(environ)
