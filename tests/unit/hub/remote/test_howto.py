"""Every command in the how-tos is one that the command line has, with options that it takes."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import click
import pytest

from steelyard.cli import main

FOLDER = Path(__file__).parents[4] / "docs" / "howto"
PAGES = {name: (FOLDER / name).read_text(encoding="utf-8") for name in ("hub-catalogue.md", "comparison-reports.md")}
COMMAND = re.compile(r"^    (?:[A-Z_]+=\S+ )?(steelyard [^&\n]*?)(?: &)?$", re.MULTILINE)
COMMANDS = [command for page in PAGES.values() for command in COMMAND.findall(page)]


@pytest.mark.parametrize(("name", "least"), [("hub-catalogue.md", 15), ("comparison-reports.md", 7)])
def test_the_page_has_commands(name, least):
    assert len(COMMAND.findall(PAGES[name])) >= least


def test_the_page_on_comparisons_has_every_command():
    """All that an operator can do with a comparison is on one page."""
    told = {line.split()[3] for line in COMMAND.findall(PAGES["comparison-reports.md"])}
    assert told == {"create", "list", "show", "cancel", "report", "unjudged"}


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
