"""From settings to a loaded runtime: which files STEELYARD_EMBED_MODEL means, and whether they are the right ones.

The bytes that are hashed are the bytes that are loaded: each file is read once. ONNX Runtime is imported only where a
model needs it, for it may not be installed.
"""

from __future__ import annotations

import json
import logging
import shlex
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING

from steelyard.embed.domain.identity import Identity, Pooling, digests_from, identity_from
from steelyard.embed.runtimes.fake import FakeRuntime
from steelyard.hall.settings import BadSetting
from steelyard.hall.texts import shorten
from steelyard.models import catalogue, store
from steelyard.models.catalogue import Kind

if TYPE_CHECKING:
    from collections.abc import Mapping

    from steelyard.embed.domain.ports import Runtime
    from steelyard.embed.settings import Settings

logger = logging.getLogger("steelyard.embed")
MODEL_FILE, TOKENIZER_FILE, IDENTITY_FILE = "model.onnx", "tokenizer.json", "embedding.json"
# How the pullable models are read, as their authors set them up in sentence-transformers.
IDENTITIES = {
    identity.model: identity
    for identity in (
        Identity("all-minilm-l6-v2-int8", 384, Pooling.MEAN, True, 256, "int8", "last_hidden_state"),
        # The graph names the tokens' vectors onnx::Shape_422 and, pooled by its own mean, 461.
        Identity("paraphrase-minilm-l3-v2", 384, Pooling.NONE, True, 128, "float32", "461"),
    )
}


@dataclass(frozen=True)
class Files:
    """A model's files on this machine, the digests that they must have, and what they are."""

    identity: Identity
    model: Path
    tokenizer: Path
    pins: Mapping[Path, str]


def build_runtime(settings: Settings, *, environ: Mapping[str, str]) -> Runtime:
    """Return the runtime for STEELYARD_EMBED_MODEL, loaded; raises ValueError, ImportError or OSError."""
    if settings.model == "fake":
        return FakeRuntime(seconds_per_call=settings.fake_seconds)
    files = find_files(settings, environ=environ)
    logger.info("Loading %s", files.model)
    try:
        from steelyard.embed.runtimes.onnx import OnnxRuntime, OnnxSource  # noqa: PLC0415  # See above.
    except ImportError as error:
        raise ImportError(
            f"the ONNX runtime is not installed; in a checkout of steelyard run: pip install '.[embed]' ({error})"
        ) from None
    model, tokenizer = _verified(files.model, pins=files.pins), _verified(files.tokenizer, pins=files.pins)
    source = OnnxSource(
        model=model,
        tokenizer=tokenizer.decode("utf-8"),
        identity=files.identity,
        facts={"model_sha256": sha256(model).hexdigest(), "tokenizer_sha256": sha256(tokenizer).hexdigest()},
        threads=settings.threads,
    )
    return OnnxRuntime(source)


def find_files(settings: Settings, *, environ: Mapping[str, str]) -> Files:
    """Return the files that STEELYARD_EMBED_MODEL names; raises BadSetting where it names none."""
    pulled = catalogue.find(settings.model)
    if pulled is not None and pulled.kind is Kind.EMBEDDING:
        return _pulled(pulled, settings, environ)
    if Path(settings.model).is_dir():
        return _own(Path(settings.model))
    if pulled is not None:
        raise BadSetting(
            f"STEELYARD_EMBED_MODEL {settings.model} is a decision model; serve it with: steelyard decide serve"
        )
    known = ", ".join(model.name for model in catalogue.of_kind(Kind.EMBEDDING))
    raise BadSetting(
        f"STEELYARD_EMBED_MODEL {shorten(settings.model, limit=200)} is no folder and no known name; "
        f"names: {known}, fake"
    )


def _pulled(pulled: catalogue.Model, settings: Settings, environ: Mapping[str, str]) -> Files:
    directory = settings.models_dir or store.models_dir(environ)
    if store.status_of_model(pulled, directory) in (store.Status.ABSENT, store.Status.PARTIAL):
        option = f" --models-dir {shlex.quote(str(directory))}" if settings.models_dir else ""
        raise BadSetting(
            f"STEELYARD_EMBED_MODEL {settings.model} is not pulled, it is not in {directory}; "
            f"run: steelyard models pull {pulled.name}{option}"
        )
    paths = {store.path_of(weights, directory): weights.sha256 for weights in pulled.files}
    model, tokenizer = paths
    return Files(IDENTITIES[pulled.name], model, tokenizer, pins=paths)


def _own(folder: Path) -> Files:
    path = folder / IDENTITY_FILE
    try:
        values = json.loads(path.read_bytes())
        identity, digests = identity_from(values, model=folder.resolve().name), digests_from(values)
    except OSError as error:
        raise BadSetting(f"STEELYARD_EMBED_MODEL: {path} cannot be read: {error.strerror or error}") from None
    except RecursionError:
        raise BadSetting(f"STEELYARD_EMBED_MODEL: {path} is nested too deeply") from None
    except ValueError as error:
        raise BadSetting(f"STEELYARD_EMBED_MODEL: {path} {_reason(error)}") from None
    pins = {folder / name: digest for name, digest in digests.items()}
    return Files(identity, folder / MODEL_FILE, folder / TOKENIZER_FILE, pins=pins)


def _reason(error: ValueError) -> str:
    is_foreign = isinstance(error, json.JSONDecodeError | UnicodeDecodeError)
    return "is not JSON" if is_foreign else str(error)


def _verified(path: Path, *, pins: Mapping[Path, str]) -> bytes:
    """Return the bytes at *path*; raises BadSetting where they have not the pinned digest."""
    content = path.read_bytes()
    digest = sha256(content).hexdigest()
    if path in pins and digest != pins[path]:
        raise BadSetting(
            f"STEELYARD_EMBED_MODEL: {path} is not the file that it should be: expected SHA-256 {pins[path]}, got "
            f"{digest}; pull or copy it again"
        )
    return content
