"""Every command in the how-to is one that the command line has, with options that it takes."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import click
import pytest

from steelyard.cli import main

PAGE = (Path(__file__).parents[4] / "docs" / "howto" / "hub-catalogue.md").read_text(encoding="utf-8")
COMMANDS = re.findall(r"^    (?:[A-Z_]+=\S+ )?(steelyard [^&\n]*?)(?: &)?$", PAGE, re.MULTILINE)


def test_the_page_has_commands():
    assert len(COMMANDS) > 15


@pytest.mark.parametrize("line", COMMANDS)
def test_a_command_of_the_page_can_be_given(line):
    command: click.Command = main
    arguments = shlex.split(line)[1:]
    context = click.Context(main)
    while isinstance(command, click.Group):
        name, *arguments = arguments
        found = command.get_command(context, name)
        assert found is not None, f"there is no {name}"
        command = found
        context = click.Context(command, parent=context, info_name=name)
    command.make_context(command.name, arguments, parent=context.parent)
