"""The decision server's settings: environment variables that start with SEMIF_, and flags of the same names.

Everything is read once, here, and refused here in one sentence that names the variable. Nothing else reads the
environment.
"""

from __future__ import annotations

import difflib
import math
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from steelyard.decide.domain.calibration import parse_table
from steelyard.hall.errors import SteelyardError
from steelyard.hall.texts import shorten

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

PREFIX = "SEMIF_"
DEFAULT_MODEL = "Qwen/Qwen3.5-4B"
DEFAULT_REVISION = "851bf6e806efd8d0a36b00ddf55e13ccb7b8cd0a"
ENGINES = ("auto", "torch", "llamacpp", "semif")
DEVICES = ("cuda", "cpu")
_LARGEST_INTEGER = 2**31 - 1
_FEWEST_TOKEN_CHARACTERS = 32
_MOST_THREADS = 512  # What llama.cpp takes; with more it crashes.
# What Kubernetes injects for a service called `semif`: no settings of ours.
_INJECTED = re.compile(r"SEMIF_(SERVICE_HOST|SERVICE_PORT(_\w+)?|PORT(_\d+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?)?)")


class BadSetting(SteelyardError, ValueError):
    """A setting has a value that cannot be used."""

    code = "bad_setting"


@dataclass(frozen=True)
class Address:
    """Where the server listens; port 0 takes any free one."""

    host: str
    port: int


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


@dataclass(frozen=True)
class Setting:
    """One variable: how its text is parsed (ValueError says what it must be), its default, and what it means."""

    name: str
    parse: Callable[[str], object]
    default: object
    meaning: str
    shown_default: str
    has_flag: bool = True

    @property
    def variable(self) -> str:
        """The environment variable, such as SEMIF_MAX_TOKENS."""
        return PREFIX + self.name.upper()

    @property
    def flag(self) -> str:
        """The command-line flag, such as --max-tokens."""
        return "--" + self.name.replace("_", "-")


def load_settings(
    environ: Mapping[str, str], *, flags: Mapping[str, str | None] | None = None, needs_token: bool = True
) -> Settings:
    """Return the settings in *environ*, overruled by *flags* (setting names to texts, None where not given).

    Raises BadSetting for the first value, or SEMIF_ name, that cannot be used.
    """
    _refuse_unknown_names(environ)
    given = {name: text for name, text in (flags or {}).items() if text is not None}
    values = {setting.name: _value(setting, environ, given) for setting in SETTINGS}
    if needs_token and values["api_token"] is None:
        raise BadSetting(
            "SEMIF_API_TOKEN is required: set it to a secret of at least 32 visible ASCII characters, "
            "for example the output of: openssl rand -hex 32"
        )
    values["bind"] = _with_host_and_port(values["bind"], given)  # type: ignore[arg-type]  # Its parser gives an Address.
    values["revision"] = _revision(str(values["model"]), values["revision"])
    return Settings(**values)  # type: ignore[arg-type]  # Each parser gives its field's type.


def _refuse_unknown_names(environ: Mapping[str, str]) -> None:
    known = [setting.variable for setting in SETTINGS]
    for name in sorted(environ):
        if name.startswith(PREFIX) and name not in known and not _INJECTED.fullmatch(name):
            near = difflib.get_close_matches(name, known, n=1)
            hint = f"; did you mean {near[0]}?" if near else "; remove it"
            raise BadSetting(f"{shorten(name)} is not a setting of this server{hint}")


def _value(setting: Setting, environ: Mapping[str, str], flags: Mapping[str, str]) -> object:
    source, text = setting.flag, flags.get(setting.name)
    if text is None:
        source, text = setting.variable, environ.get(setting.variable)
    if text is None:
        return setting.default
    try:
        return setting.parse(text)
    except ValueError as error:
        name = source if source == setting.variable else f"{source} ({setting.variable})"
        raise BadSetting(f"{name} {error}") from None


def _with_host_and_port(bind: Address, flags: Mapping[str, str]) -> Address:
    host, port = flags.get("host"), flags.get("port")
    if host == "":
        raise BadSetting("--host must not be empty")
    try:
        number = bind.port if port is None else _port(port)
    except ValueError as error:
        raise BadSetting(f"--port {error}") from None
    return Address(host=bind.host if host is None else host, port=number)


def _revision(model: str, revision: object) -> str | None:
    """Return the revision to load; a hub id other than the default one needs its own, checked where it is loaded."""
    if revision is None:
        return DEFAULT_REVISION if model == DEFAULT_MODEL else None
    return str(revision)


def _token(text: str) -> str:
    if len(text) < _FEWEST_TOKEN_CHARACTERS or not all(33 <= ord(character) <= 126 for character in text):
        raise ValueError("must be at least 32 visible ASCII characters (codes 33 to 126), without spaces")
    return text


def _nonempty(text: str) -> str:
    if not text:
        raise ValueError("must not be empty; unset it to use the default")
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:  # Python keeps such bytes as lone surrogates, which no answer could show.
        raise ValueError("must be UTF-8 text; rename the file, or point a link with such a name at it") from None
    return text


def _one_of(*choices: str) -> Callable[[str], str]:
    def parse(text: str) -> str:
        if text not in choices:
            raise ValueError(f"must be one of {', '.join(choices)}")
        return text

    return parse


def _integer(text: str) -> int:
    if not re.fullmatch("[0-9]{1,10}", text) or not 1 <= int(text) <= _LARGEST_INTEGER:
        raise ValueError(f"must be an integer from 1 to {_LARGEST_INTEGER} in ASCII digits")
    return int(text)


def _threads(text: str) -> int:
    if not re.fullmatch("[0-9]{1,3}", text) or not 1 <= int(text) <= _MOST_THREADS:
        raise ValueError(f"must be an integer from 1 to {_MOST_THREADS} in ASCII digits")
    return int(text)


def _positive_number(text: str) -> float:
    number = _number(text)
    if number == 0:
        raise ValueError("must be a finite number greater than 0")
    return number


def _number(text: str) -> float:
    if not re.fullmatch(r"[0-9]+(\.[0-9]*)?(e[+-]?[0-9]+)?", text, re.IGNORECASE) or not math.isfinite(float(text)):
        raise ValueError("must be a finite number, not negative, in ASCII digits")
    return float(text)


def _port(text: str) -> int:
    if not re.fullmatch("[0-9]{1,5}", text) or int(text) > 65535:
        raise ValueError("must be an integer from 0 to 65535 in ASCII digits")
    return int(text)


def _address(text: str) -> Address:
    host, colon, port = text.rpartition(":")
    bare = host[1:-1] if host.startswith("[") and host.endswith("]") else host
    if not colon or not bare or (":" in bare and bare == host):
        raise ValueError("must be host:port, such as 127.0.0.1:8471 or [::1]:8471")
    return Address(host=bare, port=_port(port))


def _table(text: str) -> Mapping[str, float]:
    try:
        content = Path(_nonempty(text)).read_text(encoding="utf-8")
    except OSError as error:
        raise ValueError(f"names {shorten(text)!r}, which cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise ValueError(f"names {shorten(text)!r}, which is not UTF-8") from None
    try:
        return parse_table(content)
    except ValueError as error:
        raise ValueError(f"names {shorten(text)!r}, which {error}") from None


def _directory(text: str) -> Path:
    try:
        return Path(_nonempty(text)).expanduser()  # `steelyard models` reads a ~ in the same variable so.
    except RuntimeError:
        raise ValueError(f"names {shorten(text)!r}, whose home directory is not known") from None


SETTINGS = (
    Setting("api_token", _token, None, "The bearer token that every caller sends; at least 32 visible ASCII "
            "characters. It has no flag, for command lines are public.", "required", has_flag=False),
    Setting("model", _nonempty, DEFAULT_MODEL, "A hub id, a local folder, a .gguf file, a pulled model's name, "
            "`embedded` (the default one of those), or `fake` (a deterministic engine for integration tests that is "
            "no model).", DEFAULT_MODEL),
    Setting("revision", _nonempty, None, "The hub revision to load. The default belongs to the default model; any "
            "other hub id needs its own. Files and pulled models have none.", DEFAULT_REVISION),
    Setting("engine", _one_of(*ENGINES), "auto", "`auto`, `torch`, `llamacpp` or `semif` (SemIf's own scorers over the "
            "torch engine, if that package is installed); `auto` takes `llamacpp` for .gguf files and pulled models, "
            "`torch` for hub ids and folders, and never `semif`.", "auto"),
    Setting("device", _one_of(*DEVICES), "cuda", "`cuda`, or `cpu` only if set.", "cuda"),
    Setting("bind", _address, Address("127.0.0.1", 8471), "host:port to listen on; port 0 takes any free port.",
            "127.0.0.1:8471"),
    Setting("vram_cap_gib", _positive_number, None, "Cap on this process's GPU memory in GiB; refused on an engine "
            "that cannot enforce it.", "unset"),
    Setting("max_tokens", _integer, 4096, "Longest prompt in tokens; longer ones are refused, never cut.", "4096"),
    Setting("max_decisions", _integer, 64, "Most rows per request, orderings expanded.", "64"),
    Setting("max_questions", _integer, 400, "Most questions per request on the System One wire formats.", "400"),
    Setting("max_body_bytes", _integer, 1048576, "Largest request body in bytes, after decompression.", "1048576"),
    Setting("max_queue", _integer, 32, "Most POSTs in progress, waiting and scoring; one more is a 429.", "32"),
    Setting("calibration", _table, {}, "Path of a JSON object {workload: temperature}; temperatures from 0.05 to 20.",
            "unset"),
    Setting("body_timeout_s", _positive_number, 30.0, "Seconds that a request's body may take to arrive.",
            "30"),
    Setting("models_dir", _directory, None, "Folder that `steelyard models pull` fills and pulled names are found in; "
            "the `torch` engine keeps there what it made of .gguf files.",
            "~/.cache/steelyard/models"),
    Setting("threads", _threads, None, "Processor threads of the `llamacpp` engine, and of `torch` on a CPU; set it "
            "lower where other busy processes share the machine, since threads wait for one another by spinning.",
            "all cores"),
    Setting("fake_seconds", _number, 0.0, "Seconds that each call of the `fake` engine takes, to test a busy server.",
            "0"),
)  # fmt: skip
