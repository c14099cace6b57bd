"""The decision server's settings: environment variables that start with SEMIF_, and flags of the same names.

Everything is read once, here, and refused here in one sentence that names the variable. Nothing else reads the
environment.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from steelyard.decide.domain.calibration import parse_table
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
    one_of,
    positive_number,
    token,
    with_host_and_port,
)
from steelyard.hall.texts import shorten

if TYPE_CHECKING:
    from collections.abc import Mapping

DEFAULT_MODEL = "Qwen/Qwen3.5-4B"
DEFAULT_REVISION = "851bf6e806efd8d0a36b00ddf55e13ccb7b8cd0a"
ENGINES = ("auto", "torch", "llamacpp", "semif")
DEVICES = ("cuda", "cpu")
_MOST_THREADS = 512  # What llama.cpp takes; with more it crashes.


@dataclass(frozen=True)
class Settings:
    """Every setting, checked. *api_token* is None only for commands that serve nobody."""

    api_token: str | None = field(repr=False)
    model: str
    revision: str | None
    engine: str
    device: str
    bind: Address
    vram_cap_gib: float | None
    max_tokens: int
    max_decisions: int
    max_questions: int
    max_body_bytes: int
    max_queue: int
    calibration: Mapping[str, float]
    body_timeout_s: float
    models_dir: Path | None
    threads: int | None
    fake_seconds: float


def load_settings(
    environ: Mapping[str, str], *, flags: Mapping[str, str | None] | None = None, needs_token: bool = True
) -> Settings:
    """Return the settings in *environ*, overruled by *flags* (setting names to texts, None where not given).

    Raises BadSetting for the first value, or SEMIF_ name, that cannot be used.
    """
    flags = flags or {}
    values = SETTINGS.read(environ, flags=flags)
    if needs_token:
        SETTINGS.require_token(values)
    values["bind"] = with_host_and_port(values["bind"], flags)  # type: ignore[arg-type]  # Its parser gives an Address.
    values["revision"] = _revision(str(values["model"]), values["revision"])
    return Settings(**values)  # type: ignore[arg-type]  # Each parser gives its field's type.


def _revision(model: str, revision: object) -> str | None:
    """Return the revision to load; a hub id other than the default one needs its own, checked where it is loaded."""
    if revision is None:
        return DEFAULT_REVISION if model == DEFAULT_MODEL else None
    return str(revision)


def _table(text: str) -> Mapping[str, float]:
    try:
        content = Path(nonempty(text)).read_text(encoding="utf-8")
    except OSError as error:
        raise ValueError(f"names {shorten(text)!r}, which cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise ValueError(f"names {shorten(text)!r}, which is not UTF-8") from None
    try:
        return parse_table(content)
    except ValueError as error:
        raise ValueError(f"names {shorten(text)!r}, which {error}") from None


SETTINGS = SettingsTable("SEMIF_", (
    Setting("api_token", token, None, "The bearer token that every caller sends; at least 32 visible ASCII "
            "characters. It has no flag, for command lines are public.", "required", has_flag=False),
    Setting("model", nonempty, DEFAULT_MODEL, "A hub id, a local folder, a .gguf file, a pulled model's name, "
            "`embedded` (the default one of those), or `fake` (a deterministic engine for integration tests that is "
            "no model).", DEFAULT_MODEL),
    Setting("revision", nonempty, None, "The hub revision to load. The default belongs to the default model; any "
            "other hub id needs its own. Files and pulled models have none.", DEFAULT_REVISION),
    Setting("engine", one_of(*ENGINES), "auto", "`auto`, `torch`, `llamacpp` or `semif` (SemIf's own scorers over the "
            "torch engine, if that package is installed); `auto` takes `llamacpp` for .gguf files and pulled models, "
            "`torch` for hub ids and folders, and never `semif`.", "auto"),
    Setting("device", one_of(*DEVICES), "cuda", "`cuda`, or `cpu` only if set.", "cuda"),
    Setting("bind", address, Address("127.0.0.1", 8471), "host:port to listen on; port 0 takes any free port.",
            "127.0.0.1:8471"),
    Setting("vram_cap_gib", positive_number, None, "Cap on this process's GPU memory in GiB; refused on an engine "
            "that cannot enforce it.", "unset"),
    Setting("max_tokens", integer, 4096, "Longest prompt in tokens; longer ones are refused, never cut.", "4096"),
    Setting("max_decisions", integer, 64, "Most rows per request, orderings expanded.", "64"),
    Setting("max_questions", integer, 400, "Most questions per request on the System One wire formats.", "400"),
    Setting("max_body_bytes", integer, 1048576, "Largest request body in bytes, after decompression.", "1048576"),
    Setting("max_queue", integer, 32, "Most POSTs in progress, waiting and scoring; one more is a 429.", "32"),
    Setting("calibration", _table, {}, "Path of a JSON object {workload: temperature}; temperatures from 0.05 to 20.",
            "unset"),
    Setting("body_timeout_s", positive_number, 30.0, "Seconds that a request's body may take to arrive.",
            "30"),
    Setting("models_dir", directory, None, "Folder that `steelyard models pull` fills and pulled names are found in; "
            "the `torch` engine keeps there what it made of .gguf files.",
            "~/.cache/steelyard/models"),
    Setting("threads", integer_between(1, _MOST_THREADS), None, "Processor threads of the `llamacpp` engine, and of "
            "`torch` on a CPU; set it "
            "lower where other busy processes share the machine, since threads wait for one another by spinning.",
            "all cores"),
    Setting("fake_seconds", number, 0.0, "Seconds that each call of the `fake` engine takes, to test a busy server.",
            "0"),
))  # fmt: skip
