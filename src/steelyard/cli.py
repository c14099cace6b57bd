"""The command line: `steelyard`, and `semif-serve`, which is `steelyard decide serve`."""

from __future__ import annotations

import click

from steelyard.decide.commands import decide, serve
from steelyard.embed.commands import embed
from steelyard.hub.commands import hub
from steelyard.models.commands import models


@click.group()
@click.version_option(package_name="steelyard")
def main() -> None:
    """Weigh options by a language model's logits.

    Start here: `steelyard models pull embedded`, then `steelyard decide serve --help`.
    """


main.add_command(decide)
main.add_command(embed)
main.add_command(hub)
main.add_command(models)
semif_serve = serve
