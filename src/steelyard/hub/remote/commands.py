"""`steelyard hub projects | bindings | … | apply`: the commands that ask a hub over HTTP, wherever it runs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from steelyard.hub.remote import building
from steelyard.hub.remote.apply import apply
from steelyard.hub.remote.errors import MissingExtra
from steelyard.hub.remote.intents import create
from steelyard.hub.remote.nouns import NOUNS, Noun
from steelyard.hub.remote.reporting import report, unjudged
from steelyard.hub.remote.suites import SUITE_COMMANDS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

# What a noun has beside the table's commands.
_MORE = {
    "suites": SUITE_COMMANDS,
    "comparisons": {"create": create, "report": report, "unjudged": unjudged},
}


def add_remote_commands(group: click.Group) -> None:
    """Add a group for each noun, and `apply`."""
    for noun in NOUNS:
        group.add_command(NounGroup(noun, more=_MORE.get(noun.name, {})))
    group.add_command(apply)


class NounGroup(click.Group):
    """The commands of one noun. They are built when they are asked for, since their schemas need the extra `hub`."""

    def __init__(self, noun: Noun, *, more: Mapping[str, click.Command]) -> None:
        super().__init__(name=noun.name, help=noun.summary, short_help=noun.summary)
        self._builders = dict(_builders(noun))
        self.commands.update(more)

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names, those of the table first."""
        return [*self._builders, *super().list_commands(ctx)]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return one command, built now."""
        if cmd_name not in self._builders:
            return super().get_command(ctx, cmd_name)
        try:
            return self._builders[cmd_name]()
        except MissingExtra as error:
            raise click.ClickException(str(error)) from error


def _builders(noun: Noun) -> Iterator[tuple[str, Callable[[], click.Command]]]:
    yield "list", lambda: building.list_command(noun)
    if noun.is_shown:
        yield "show", lambda: building.show_command(noun)
    if noun.new:
        yield noun.create, lambda: building.create_command(noun)
    for verb in noun.verbs:
        yield verb.name, lambda verb=verb: building.verb_command(noun, verb)  # type: ignore[misc]
