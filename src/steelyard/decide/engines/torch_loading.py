"""Loading chat models with transformers, or refusing them in one sentence."""

from __future__ import annotations

import inspect
import re
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import huggingface_hub
import torch
import transformers
from huggingface_hub.errors import LocalEntryNotFoundError

from steelyard.decide.engines.card_memory import CardMemory, out_of_memory_text
from steelyard.decide.engines.gguf_files import checked_sha256
from steelyard.decide.engines.host_memory import HostMemory
from steelyard.decide.engines.torch_gguf import dequantised
from steelyard.decide.engines.torch_reading import read_model, read_tokenizer
from steelyard.decide.engines.torch_tokenizer import TorchTokenizer
from steelyard.hall.texts import shorten

if TYPE_CHECKING:
    from collections.abc import Iterator

_COMMIT = re.compile("[0-9a-f]{40}")
_ADAPTER = "adapter_config.json"


@dataclass(frozen=True)
class TorchSource:
    """The weights to load and how.

    *path* is a folder or a GGUF file, None for the hub id *name* in the local cache at the commit *revision*. *sha256*
    is the expected digest of a pulled GGUF file, None for an operator's own. What GGUF files are dequantised to lies in
    *converted_dir*. *threads* is how many cores to use, None for torch's own choice.
    """

    name: str
    path: Path | None
    device: str
    max_tokens: int
    converted_dir: Path
    revision: str | None = None
    sha256: str | None = None
    cap_gib: float | None = None
    threads: int | None = None


@dataclass(frozen=True)
class Loaded:
    """A model on its device, its tokenizer, its memory, and its facts as results report them."""

    model: Any
    tokenizer: TorchTokenizer
    memory: CardMemory | HostMemory
    facts: dict[str, object]


def load(source: TorchSource) -> Loaded:
    """Return the model of *source*, whole, on its device and ready to score; raises ValueError or OSError."""
    _quieten()
    if source.threads is not None:
        torch.set_num_threads(source.threads)
    # The cap binds what is allocated after it, so it comes before the first weight.
    memory = CardMemory(torch, cap_gib=source.cap_gib) if source.device == "cuda" else HostMemory()
    folder, digests = _folder_of(source)
    if (folder / _ADAPTER).exists():  # transformers would load the model without it, or another model.
        raise ValueError(
            f"SEMIF_MODEL: {source.name} holds an adapter ({_ADAPTER}); merge it into its model, and serve that"
        )
    tokenizer = _load_tokenizer(folder, source)
    model = _load_model(folder, source)
    _check(model, tokenizer, source)
    facts = {
        "source": source.name,
        "revision": source.revision,
        "dtype": str(model.dtype).removeprefix("torch."),
        "device": str(model.device),
        "torch_version": str(torch.__version__),
        "transformers_version": transformers.__version__,
        **digests,
    }
    return Loaded(model=model, tokenizer=tokenizer, memory=memory, facts=facts)


def _quieten() -> None:
    """Keep the library's chatter out of the server's log."""
    logs: Any = transformers.utils.logging
    logs.set_verbosity_error()


def _folder_of(source: TorchSource) -> tuple[Path, dict[str, object]]:
    """Return the folder of *source* in transformers' format, and the digest of its GGUF file if it comes from one."""
    if source.path is None:
        return _cached_snapshot(source), {}
    if source.path.is_dir():
        return source.path, {}
    sha256 = checked_sha256(source.path, name=source.name, expected=source.sha256)
    with _as_sentence(source):
        folder = dequantised(source.path, sha256=sha256, directory=source.converted_dir)
    return folder, {"gguf_sha256": sha256}


def _cached_snapshot(source: TorchSource) -> Path:
    revision = source.revision or ""
    if not _COMMIT.fullmatch(revision):
        raise ValueError(f"SEMIF_REVISION {shorten(revision)} is no full commit: it needs 40 characters of 0-9 and a-f")
    try:
        return Path(huggingface_hub.snapshot_download(source.name, revision=revision, local_files_only=True))
    except (LocalEntryNotFoundError, ValueError):
        raise ValueError(
            f"SEMIF_MODEL: {shorten(source.name)} is not whole in the local cache at revision {revision}; "
            f"on a machine with network run: hf download {source.name} --revision {revision}"
        ) from None


def _load_tokenizer(folder: Path, source: TorchSource) -> TorchTokenizer:
    with _as_sentence(source):
        return TorchTokenizer(read_tokenizer(folder))


def _load_model(folder: Path, source: TorchSource) -> Any:
    on_card = source.device == "cuda"
    with _as_sentence(source):
        model = read_model(
            folder,
            # On a CPU that has no instructions for it, BF16 takes a hundred times as long as FP32.
            dtype=torch.bfloat16 if on_card else torch.float32,
            device_map={"": "cuda:0" if on_card else "cpu"},
            use_safetensors=True,  # The other format is a pickle, which runs code when it is read.
        )
    return model.eval().requires_grad_(False)


def _check(model: Any, tokenizer: TorchTokenizer, source: TorchSource) -> None:
    config = model.config.get_text_config()
    positions = getattr(config, "max_position_embeddings", None)
    if positions is not None and source.max_tokens > positions:
        raise ValueError(
            f"SEMIF_MAX_TOKENS is {source.max_tokens}, but {source.name} reads {positions} tokens at most; "
            f"set SEMIF_MAX_TOKENS={positions} or lower"
        )
    if {"cache", "logits_to_keep"} - inspect.signature(model.forward).parameters.keys():
        raise ValueError(f"SEMIF_MODEL: {type(model).__name__} cannot score suffixes after a cached state")
    # A token beyond the table would be a fault of the card that no later call survives.
    if tokenizer.largest_token >= model.get_input_embeddings().num_embeddings:
        raise ValueError(f"SEMIF_MODEL: the tokenizer of {source.name} has tokens beyond the model's")
    devices = {parameter.device.type for parameter in model.parameters()}
    if devices != {source.device}:
        raise ValueError(f"SEMIF_DEVICE is {source.device}, but the model sits on {', '.join(sorted(devices))}")


@contextmanager
def _as_sentence(source: TorchSource) -> Iterator[None]:
    """Turn what transformers raises on a model that it cannot load, which is any kind of error, into a ValueError."""
    try:
        yield
    except Exception as error:
        reason = out_of_memory_text(error)
        if reason is None:
            text = shorten(" ".join(str(error).split()), limit=300)
            raise ValueError(f"SEMIF_MODEL: {source.name} cannot be loaded: {text or type(error).__name__}") from None
        on_card = source.device == "cuda"
        advice = "free the card, raise SEMIF_VRAM_CAP_GIB if it is set" if on_card else "end other processes"
        raise ValueError(
            f"SEMIF_MODEL: there is not enough memory for {source.name}; {advice}, or serve a smaller model "
            f"({shorten(reason, limit=200)})"
        ) from None
