"""Any room's table of settings; the decision server's own are tested with it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from steelyard.hall.settings import (
    Address,
    BadSetting,
    Setting,
    SettingsTable,
    address,
    directory,
    integer_between,
    nonempty,
    number,
    one_of,
    port,
    positive_number,
    token,
    with_host_and_port,
)

TABLE = SettingsTable(
    "STEELYARD_HUB_",
    (
        Setting("api_token", token, None, "A token.", "required", has_flag=False),
        Setting("max_queue", integer_between(1, 99), 32, "A number.", "32"),
    ),
)


def refusal(flags: Any = None, **environ: str) -> str:
    with pytest.raises(BadSetting) as caught:
        TABLE.read(environ, flags=flags or {})
    return str(caught.value)


def test_a_setting_has_its_default_until_its_variable_or_its_flag_says_more():
    assert TABLE.read({}, flags={}) == {"api_token": None, "max_queue": 32}
    environ = {"STEELYARD_HUB_MAX_QUEUE": "7"}
    assert TABLE.read(environ, flags={"max_queue": None})["max_queue"] == 7
    assert TABLE.read(environ, flags={"max_queue": "8"})["max_queue"] == 8


def test_a_bad_value_is_refused_with_the_name_that_gave_it():
    text = "must be an integer from 1 to 99 in ASCII digits"
    assert refusal(STEELYARD_HUB_MAX_QUEUE="0") == f"STEELYARD_HUB_MAX_QUEUE {text}"
    assert refusal({"max_queue": "100"}) == f"--max-queue (STEELYARD_HUB_MAX_QUEUE) {text}"


def test_a_name_with_the_prefix_is_a_setting_or_refused():
    text = "is not a setting of this server"
    assert (
        refusal(STEELYARD_HUB_MAX_QUEU="1") == f"STEELYARD_HUB_MAX_QUEU {text}; did you mean STEELYARD_HUB_MAX_QUEUE?"
    )
    assert refusal(STEELYARD_HUB_XYZZY="1") == f"STEELYARD_HUB_XYZZY {text}; remove it"


@pytest.mark.parametrize("name", ["STEELYARD_EMBED_MAX_QUEU", "STEELYARD_X", "STEELYARD_HUB", "SEMIF_MODEL"])
def test_another_rooms_names_are_none_of_this_rooms_business(name):
    assert TABLE.read({name: "x"}, flags={}) == TABLE.read({}, flags={})


@pytest.mark.parametrize("name", ["SERVICE_HOST", "SERVICE_PORT_HTTP", "PORT", "PORT_80_TCP_ADDR"])
def test_what_kubernetes_injects_for_a_service_of_the_rooms_name_is_ignored(name):
    assert TABLE.read({f"STEELYARD_HUB_{name}": "tcp://10.0.0.1:80"}, flags={}) == TABLE.read({}, flags={})
    assert "is not a setting" in refusal(**{f"STEELYARD_HUB_X_{name}": "1"})


def test_a_server_without_its_token_is_told_how_to_make_one():
    TABLE.require_token({"api_token": "x"})
    with pytest.raises(BadSetting, match=r"^STEELYARD_HUB_API_TOKEN is required: .* openssl rand -hex 32$"):
        TABLE.require_token({"api_token": None})


def test_host_and_port_win_over_the_address():
    bind = Address("a", 1)
    assert with_host_and_port(bind, {}) == bind
    assert with_host_and_port(bind, {"host": "b", "port": "2"}) == Address("b", 2)
    for flags, text in (({"host": ""}, "--host must not"), ({"port": "x"}, "--port must be an integer")):
        with pytest.raises(BadSetting, match=f"^{text}"):
            with_host_and_port(bind, flags)


@pytest.mark.parametrize(
    ("parse", "text", "value"),
    [
        (token, "x" * 32, "x" * 32),
        (nonempty, "ö", "ö"),
        (one_of("a", "b"), "b", "b"),
        (integer_between(0, 10), "00", 0),
        (port, "65535", 65535),
        (number, "0", 0.0),
        (positive_number, "2e-1", 0.2),
        (address, "[::1]:0", Address("::1", 0)),
        (address, "localhost:80", Address("localhost", 80)),
        (directory, "/x", Path("/x")),
    ],
)
def test_a_parser_takes_what_fits(parse, text, value):
    assert parse(text) == value


@pytest.mark.parametrize(
    ("parse", "text", "reason"),
    [
        (token, "x" * 31, "at least 32 visible ASCII"),
        (token, "x" * 31 + "ö", "at least 32 visible ASCII"),
        (nonempty, "", "must not be empty"),
        (nonempty, "\udcff", "must be UTF-8 text"),
        (one_of("a", "b"), "A", "must be one of a, b"),
        (integer_between(0, 10), "11", "from 0 to 10"),
        (integer_between(0, 10), "000", "from 0 to 10"),
        (port, "65536", "from 0 to 65535"),
        (number, "nan", "must be a finite number"),
        (number, "1e999", "must be a finite number"),
        (positive_number, "0.0", "greater than 0"),
        (address, "::1:80", "must be host:port"),
        (address, "x:", "from 0 to 65535"),
        (directory, "~nobody-of-that-name/x", "whose home directory is not known"),
    ],
)
def test_a_parser_says_what_it_takes(parse, text, reason):
    with pytest.raises(ValueError, match=reason):
        parse(text)
