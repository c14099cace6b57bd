"""The hub's settings: environment variables that start with STEELYARD_HUB_, and flags of the same names.

The commands that ask a hub over HTTP read two variables with another prefix, since a name with this one that is no
setting refuses the start: a shell of an operator's can hold both.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from steelyard.hall import settings as hall
from steelyard.hall.settings import Address, Setting, SettingsTable

if TYPE_CHECKING:
    from collections.abc import Mapping

PREFIX = "STEELYARD_HUB_"
REMOTE_URL = "STEELYARD_URL"
REMOTE_CREDENTIAL = "STEELYARD_CREDENTIAL"


@dataclass(frozen=True)
class Settings:
    """Every setting, checked."""

    database: str
    bind: Address
    max_in_progress: int
    max_body_bytes: int
    body_timeout_s: float
    calls_per_second: float
    failures_per_minute: float
    group_commit: bool
    eligibility_margin: float
    eligibility_min_cases: int
    eligibility_error_rate: float


def _share(text: str) -> float:
    value = hall.number(text)
    if not 0 <= value <= 1:
        raise ValueError("must be from 0 to 1")
    return value


def _switch(text: str) -> bool:
    if text not in ("on", "off"):
        raise ValueError("must be on or off")
    return text == "on"


TABLE = SettingsTable(PREFIX, (
    Setting("database", hall.nonempty, "sqlite:///var/hub.db", "Where everything is kept: sqlite:///path of a file, or "
            "postgresql://user:password@host/name.", "sqlite:///var/hub.db"),
    Setting("bind", hall.address, Address("127.0.0.1", 8470), "host:port to listen on; port 0 takes any free port.",
            "127.0.0.1:8470"),
    Setting("max_in_progress", hall.integer, 256, "Most embedding requests in progress; one more is a 429.", "256"),
    Setting("max_body_bytes", hall.integer, 8 << 20, "Largest body of an embedding request in bytes, after "
            "decompression.", "8388608"),
    Setting("body_timeout_s", hall.positive_number, 30.0, "Seconds that a request's body may take to arrive.", "30"),
    Setting("calls_per_second", hall.positive_number, 200.0, "Calls per second that one credential may make, in each "
            "process; twice as many in a burst.", "200"),
    Setting("failures_per_minute", hall.positive_number, 60.0, "Requests without a valid credential per minute that "
            "one address gets a 401 for, in each process; further ones are a 429.", "60"),
    Setting("group_commit", _switch, True, "`on`: the log rows of requests that come together are committed together, "
            "which costs one wait for the disk and not one each. `off` is for measuring the difference.", "on"),
    Setting("eligibility_margin", _share, 0.05, "How far the candidate's nDCG may lie below the current one's. "
            "This and the next two are kept with a comparison when it is created.", "0.05"),
    Setting("eligibility_min_cases", hall.integer_between(1, 100), 30, "Fewest cases that a verdict other than "
            "ineligible rests on; a suite has at most 100.", "30"),
    Setting("eligibility_error_rate", _share, 0.0, "Largest share of cases in which the candidate may fail.", "0"),
))  # fmt: skip


def load_settings(environ: Mapping[str, str], *, flags: Mapping[str, str | None] | None = None) -> Settings:
    """Return the settings in *environ*, overruled by *flags*; raises BadSetting."""
    values = TABLE.read(environ, flags=flags or {})
    values["bind"] = hall.with_host_and_port(values["bind"], flags or {})  # type: ignore[arg-type]  # It is an Address.
    return Settings(**values)  # type: ignore[arg-type]  # Each parser gives its field's type.
