"""The embedding server's settings: environment variables that start with STEELYARD_EMBED_, and flags of the same names.

Everything is read once, here, and refused here in one sentence that names the variable.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from steelyard.embed.domain.requests import MOST_INPUTS
from steelyard.hall.settings import (
    Address,
    Setting,
    SettingsTable,
    address,
    directory,
    integer,
    integer_between,
    nonempty,
    number,
    positive_number,
    token,
    with_host_and_port,
)

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

PREFIX = "STEELYARD_EMBED_"
DEFAULT_MODEL = "all-minilm-l6-v2-int8"
_MOST_THREADS = 512


@dataclass(frozen=True)
class Settings:
    """Every setting, checked."""

    api_token: str = field(repr=False)
    model: str
    bind: Address
    threads: int | None
    max_batch_tokens: int
    max_batch_rows: int
    max_inputs: int
    max_body_bytes: int
    max_queue: int
    body_timeout_s: float
    models_dir: Path | None
    fake_seconds: float


def load_settings(environ: Mapping[str, str], *, flags: Mapping[str, str | None] | None = None) -> Settings:
    """Return the settings in *environ*, overruled by *flags* (setting names to texts, None where not given).

    Raises BadSetting for the first value, or STEELYARD_EMBED_ name, that cannot be used.
    """
    flags = flags or {}
    values = SETTINGS.read(environ, flags=flags)
    SETTINGS.require_token(values)
    values["bind"] = with_host_and_port(values["bind"], flags)  # type: ignore[arg-type]  # Its parser gives an Address.
    return Settings(**values)  # type: ignore[arg-type]  # Each parser gives its field's type.


SETTINGS = SettingsTable(PREFIX, (
    Setting("api_token", token, None, "The bearer token that every caller sends; at least 32 visible ASCII "
            "characters. It has no flag, for command lines are public.", "required", has_flag=False),
    Setting("model", nonempty, DEFAULT_MODEL, "A pulled model's name, a folder with `model.onnx`, `tokenizer.json` "
            "and `embedding.json`, or `fake` (a deterministic runtime for integration tests that is no model). One "
            "process serves one model.", DEFAULT_MODEL),
    Setting("bind", address, Address("127.0.0.1", 8472), "host:port to listen on; port 0 takes any free port.",
            "127.0.0.1:8472"),
    Setting("threads", integer_between(1, _MOST_THREADS), None, "Processor threads of the model; set it lower where "
            "other busy processes share the machine.", "all cores"),
    Setting("max_batch_tokens", integer, 1024, "Most tokens in one batch, padding counted; one longer input goes "
            "alone.", "1024"),
    Setting("max_batch_rows", integer, 32, "Most inputs in one batch; 1 embeds every input alone.", "32"),
    Setting("max_inputs", integer_between(1, MOST_INPUTS), MOST_INPUTS, "Most inputs per request.", str(MOST_INPUTS)),
    Setting("max_body_bytes", integer, 2097152, "Largest request body in bytes, after decompression.", "2097152"),
    Setting("max_queue", integer, 64, "Most POSTs in progress, waiting and embedding; one more is a 429.", "64"),
    Setting("body_timeout_s", positive_number, 30.0, "Seconds that a request's body may take to arrive.", "30"),
    Setting("models_dir", directory, None, "Folder that `steelyard models pull` fills and pulled names are found in.",
            "~/.cache/steelyard/models"),
    Setting("fake_seconds", number, 0.0, "Seconds that each call of the `fake` runtime takes, to test a busy server.",
            "0"),
))  # fmt: skip
