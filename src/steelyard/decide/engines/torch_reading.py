"""What transformers reads from a folder: from disk only, without running code that comes with it, and whole or not."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import transformers

from steelyard.hall.texts import shorten

if TYPE_CHECKING:
    from pathlib import Path

_LOCAL = {"local_files_only": True, "trust_remote_code": False}


def read_tokenizer(folder: Path, **options: Any) -> Any:
    """Return the tokenizer in *folder*; raises any kind of error where there is none that can be read."""
    auto: Any = transformers.AutoTokenizer
    return auto.from_pretrained(folder, **_LOCAL, **options)


def read_model(folder: Path, **options: Any) -> Any:
    """Return the causal model in *folder*.

    Raises ValueError where weights are missing or misshapen, or where the model's parts have weights that it does not
    read: transformers would fill the former with random numbers, drop the latter, such as the scales of a quantisation
    that it does not know, and answer all the same. Raises any kind of error where the folder cannot be read.
    """
    auto: Any = transformers.AutoModelForCausalLM
    model, loading = auto.from_pretrained(folder, output_loading_info=True, **_LOCAL, **options)
    wrong = [str(key) for kind in ("missing_keys", "mismatched_keys", "error_msgs") for key in loading[kind]]
    if wrong:
        raise ValueError(f"{len(wrong)} of the model's weights are missing or misshapen, such as {shorten(min(wrong))}")
    unread = [key for key in loading["unexpected_keys"] if key.startswith(_parts_of(model))]
    if unread:
        raise ValueError(f"{len(unread)} of the file's weights have no place in the model, such as {min(unread)}")
    return model


def _parts_of(model: Any) -> tuple[str, ...]:
    """Return how the names of the weights of *model* begin, part by part, such as `lm_head.` and `model.layers.`.

    A file may also have whole parts that a causal model leaves out: a vision tower, a head for training.
    """
    own, base = dict(model.named_children()), model.base_model_prefix
    inner = dict(own.pop(base).named_children()) if base in own else {}
    return (*(f"{name}." for name in own), *(f"{base}.{name}." for name in inner))
