"""Flags that follow from a table of settings."""

from __future__ import annotations

import click
import pytest
from click.testing import CliRunner

from steelyard.hall.settings import Setting, SettingsTable, nonempty
from steelyard.shell.flags import host_and_port_flags, setting_flags

TABLE = SettingsTable(
    "X_",
    (
        Setting("secret", nonempty, None, "Secret.", "unset", has_flag=False),
        Setting("first_word", nonempty, "a", "First.", "a"),
        Setting("last_word", nonempty, "z", "Last.", "z"),
    ),
)


@pytest.mark.parametrize(("names", "shown"), [(None, ["first_word", "last_word"]), (["last_word"], ["last_word"])])
def test_flags_come_in_the_tables_order_and_secrets_have_none(names, shown):
    @click.command()
    @setting_flags(TABLE, names=names)
    @host_and_port_flags
    def command(**flags: str | None) -> None:
        click.echo(flags)

    assert [option.name for option in command.params] == [*shown, "host", "port"]
    assert "[X_LAST_WORD; default: z]" in CliRunner().invoke(command, ["--help"]).stdout
    given = CliRunner().invoke(command, ["--last-word", "", "--port", "1"]).stdout
    assert "'last_word': ''" in given
    assert "'host': None" in given
