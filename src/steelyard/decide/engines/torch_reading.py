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

    Raises ValueError where weights are missing or misshapen: transformers would fill them with random numbers and
    answer all the same. Raises any kind of error where the folder cannot be read.
    """
    auto: Any = transformers.AutoModelForCausalLM
    model, loading = auto.from_pretrained(folder, output_loading_info=True, **_LOCAL, **options)
    wrong = [str(key) for kind in ("missing_keys", "mismatched_keys", "error_msgs") for key in loading[kind]]
    if wrong:
        raise ValueError(f"{len(wrong)} of the model's weights are missing or misshapen, such as {shorten(min(wrong))}")
    return model
