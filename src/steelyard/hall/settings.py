"""Settings of any room: a table of environment variables with one prefix, and flags of the same names.

A room keeps its own table, its own frozen class and the rules that are about several settings at once. Everything that
cannot be used is refused in one sentence that names the variable.
"""

from __future__ import annotations

import difflib
import math
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from steelyard.hall.errors import SteelyardError
from steelyard.hall.texts import shorten

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

# What Kubernetes injects, after the prefix, for a service of a room's name: no settings of ours.
_INJECTED = re.compile(r"SERVICE_HOST|SERVICE_PORT(_\w+)?|PORT(_\d+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?)?")
_FEWEST_TOKEN_CHARACTERS = 32


class BadSetting(SteelyardError, ValueError):
    """A setting has a value that cannot be used."""

    code = "bad_setting"


@dataclass(frozen=True)
class Address:
    """Where a server listens; port 0 takes any free one."""

    host: str
    port: int


@dataclass(frozen=True)
class Setting:
    """One setting: how its text is parsed (ValueError says what it must be), its default, and what it means.

    *name* is that of its field, such as max_tokens; *shown_default* is the default as a document shows it.
    """

    name: str
    parse: Callable[[str], object]
    default: object
    meaning: str
    shown_default: str
    has_flag: bool = True

    @property
    def flag(self) -> str:
        """The command-line flag, such as --max-tokens."""
        return "--" + self.name.replace("_", "-")


@dataclass(frozen=True)
class SettingsTable:
    """Every setting of one room. *prefix* begins the names of its variables, such as SEMIF_ or STEELYARD_HUB_.

    A room looks at no name without its prefix, so that rooms can share an environment.
    """

    prefix: str
    settings: tuple[Setting, ...]

    @property
    def by_variable(self) -> Mapping[str, Setting]:
        """The settings by their environment variables, in the table's order."""
        return {self.prefix + setting.name.upper(): setting for setting in self.settings}

    def read(self, environ: Mapping[str, str], *, flags: Mapping[str, str | None]) -> dict[str, object]:
        """Return every setting's value by its name; *flags* (names to texts, None where not given) win over *environ*.

        Raises BadSetting for the first name with the prefix that is unknown, else for the first value that is bad.
        """
        self._refuse_unknown_names(environ)
        return {
            setting.name: _value(setting, variable, environ, flags) for variable, setting in self.by_variable.items()
        }

    def require_token(self, values: Mapping[str, object]) -> None:
        """Raise BadSetting unless *values*, as `read` gave them, have an `api_token`."""
        if values["api_token"] is None:
            raise BadSetting(
                f"{self.prefix}API_TOKEN is required: set it to a secret of at least {_FEWEST_TOKEN_CHARACTERS} "
                "visible ASCII characters, for example the output of: openssl rand -hex 32"
            )

    def _refuse_unknown_names(self, environ: Mapping[str, str]) -> None:
        known = [setting.name.upper() for setting in self.settings]
        for variable in sorted(name for name in environ if name.startswith(self.prefix)):
            name = variable.removeprefix(self.prefix)
            if name not in known and not _INJECTED.fullmatch(name):
                # Compared without the prefix, for with a long one every name is near every other.
                near = difflib.get_close_matches(name, known, n=1)
                hint = f"; did you mean {self.prefix}{near[0]}?" if near else "; remove it"
                raise BadSetting(f"{shorten(variable)} is not a setting of this server{hint}")


def _value(setting: Setting, variable: str, environ: Mapping[str, str], flags: Mapping[str, str | None]) -> object:
    source, text = f"{setting.flag} ({variable})", flags.get(setting.name)
    if text is None:
        source, text = variable, environ.get(variable)
    if text is None:
        return setting.default
    try:
        return setting.parse(text)
    except ValueError as error:
        raise BadSetting(f"{source} {error}") from None


def with_host_and_port(bind: Address, flags: Mapping[str, str | None]) -> Address:
    """Return *bind* with what the flags `host` and `port` say instead; raises BadSetting."""
    host, text = flags.get("host"), flags.get("port")
    if host == "":
        raise BadSetting("--host must not be empty")
    try:
        number = bind.port if text is None else port(text)
    except ValueError as error:
        raise BadSetting(f"--port {error}") from None
    return Address(host=bind.host if host is None else host, port=number)


def token(text: str) -> str:
    """Return a secret that is hard to guess and goes into a header as it is; a refusal does not quote it."""
    if len(text) < _FEWEST_TOKEN_CHARACTERS or not all(33 <= ord(character) <= 126 for character in text):
        raise ValueError(
            f"must be at least {_FEWEST_TOKEN_CHARACTERS} visible ASCII characters (codes 33 to 126), without spaces"
        )
    return text


def nonempty(text: str) -> str:
    """Return any text that UTF-8 can carry."""
    if not text:
        raise ValueError("must not be empty; unset it to use the default")
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:  # Python keeps such bytes as lone surrogates, which no answer could show.
        raise ValueError("must be UTF-8 text; rename the file, or point a link with such a name at it") from None
    return text


def one_of(*choices: str) -> Callable[[str], str]:
    """Return the parser of one of a few words, exactly."""

    def parse(text: str) -> str:
        if text not in choices:
            raise ValueError(f"must be one of {', '.join(choices)}")
        return text

    return parse


def integer_between(least: int, most: int) -> Callable[[str], int]:
    """Return the parser of an integer from *least* (0 or more) to *most*, with no more digits than *most* has."""
    digits = re.compile(f"[0-9]{{1,{len(str(most))}}}")

    def parse(text: str) -> int:
        if not digits.fullmatch(text) or not least <= int(text) <= most:
            raise ValueError(f"must be an integer from {least} to {most} in ASCII digits")
        return int(text)

    return parse


integer = integer_between(1, 2**31 - 1)
port = integer_between(0, 65535)


def positive_number(text: str) -> float:
    """Return a finite number above 0."""
    value = number(text)
    if value == 0:
        raise ValueError("must be a finite number greater than 0")
    return value


def number(text: str) -> float:
    """Return a finite number, 0 or more."""
    if not re.fullmatch(r"[0-9]+(\.[0-9]*)?(e[+-]?[0-9]+)?", text, re.IGNORECASE) or not math.isfinite(float(text)):
        raise ValueError("must be a finite number, not negative, in ASCII digits")
    return float(text)


def address(text: str) -> Address:
    """Return a host, an IPv6 one in brackets, and a port."""
    host, colon, port_text = text.rpartition(":")
    bare = host[1:-1] if host.startswith("[") and host.endswith("]") else host
    if not colon or not bare or (":" in bare and bare == host):
        raise ValueError("must be host:port, such as 127.0.0.1:8471 or [::1]:8471")
    return Address(host=bare, port=port(port_text))


def directory(text: str) -> Path:
    """Return a folder's path, which need not exist; ~ is the home directory, as in a shell."""
    try:
        return Path(nonempty(text)).expanduser()
    except RuntimeError:
        raise ValueError(f"names {shorten(text)!r}, whose home directory is not known") from None
