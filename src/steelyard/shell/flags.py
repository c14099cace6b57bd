"""Command-line flags that follow from a room's table of settings."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

import click

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from steelyard.hall.settings import SettingsTable

Command = TypeVar("Command", bound="Callable[..., Any]")


def setting_flags(table: SettingsTable, *, names: Collection[str] | None = None) -> Callable[[Command], Command]:
    """Add one flag for each setting of *table* that has one, or only for those that are called *names*.

    A flag's text is checked by the setting's own rule, so click takes any; one that is not given is None.
    """

    def decorate(command: Command) -> Command:
        for variable, setting in reversed(list(table.by_variable.items())):
            if setting.has_flag and (names is None or setting.name in names):
                text = f"{setting.meaning}  [{variable}; default: {setting.shown_default}]"
                command = click.option(setting.flag, setting.name, default=None, metavar="TEXT", help=text)(command)
        return command

    return decorate


def host_and_port_flags(command: Command) -> Command:
    """Add the flags that overrule parts of --bind; `hall.settings.with_host_and_port` reads them."""
    command = click.option("--port", default=None, help="Port to listen on; wins over --bind.")(command)
    return click.option("--host", default=None, help="Host to listen on; wins over --bind.")(command)
