"""`steelyard hub …`: the commands on the hub's own machine. The heavy parts load when a command runs."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

import click

from steelyard.hall.errors import SteelyardError
from steelyard.hall.settings import BadSetting
from steelyard.hub.db.commands import STORE_EXIT_CODES, db, naming_the_database
from steelyard.hub.remote.commands import add_remote_commands
from steelyard.hub.settings import TABLE, load_settings
from steelyard.shell.flags import host_and_port_flags, setting_flags
from steelyard.shell.logs import log_to_stderr
from steelyard.shell.refusals import EXIT_FAILED, EXIT_REFUSED, refusals_as_sentences

if TYPE_CHECKING:
    from contextlib import AbstractContextManager


def _refusals() -> AbstractContextManager[None]:
    return refusals_as_sentences(
        {BadSetting: EXIT_REFUSED, **STORE_EXIT_CODES, SteelyardError: EXIT_FAILED},
        when_interrupted="run the same command again.",
        extra="hub",
    )


@click.group()
def hub() -> None:
    """Keep a catalogue of embedding deployments and route embedding traffic to them.

    Start here: `steelyard hub init`, which shows the first operator's credential once, then `steelyard hub serve`.
    """


hub.add_command(db)
add_remote_commands(hub)


@hub.command()
@setting_flags(TABLE, names=("database",))
def init(**flags: str | None) -> None:
    """Make the database and the first operator's credential, and show its secret, once.

    Run again on a database that has one, it makes another: whoever can write the database may operate the hub.
    """
    with _refusals():
        settings = load_settings(os.environ, flags=flags)
        from steelyard.hub.startup import init as make  # noqa: PLC0415  # It loads the extra `hub`.

        with naming_the_database(settings.database):
            secret = make(settings.database)
    click.echo("This operator credential is shown once. Keep it where secrets are kept:", err=True)
    click.echo(secret)


@hub.command()
@setting_flags(TABLE)
@host_and_port_flags
@click.option("--upgrade", is_flag=True, help="Bring the database's schema up to date first.")
def serve(*, upgrade: bool, **flags: str | None) -> None:
    """Serve the catalogue's API and the embedding gateway over HTTP."""
    log_to_stderr(only_warnings_of=("alembic",))
    with _refusals():
        settings = load_settings(os.environ, flags=flags)
        from steelyard.hub.server import serve as serve_hub  # noqa: PLC0415  # It loads the extra `hub`.
        from steelyard.hub.startup import open_database  # noqa: PLC0415

        with naming_the_database(settings.database):
            code = serve_hub(settings, open_database(settings.database, upgrade=upgrade), environ=os.environ)
    sys.exit(code)


@hub.group()
def rescue() -> None:
    """Credentials without a credential: for when an operator's secret is lost, or one has leaked.

    These commands work on the database itself, whether a hub serves from it or not, and act at once. For a new
    operator's secret run `steelyard hub init`.
    """


@rescue.command("list")
@setting_flags(TABLE, names=("database",))
def list_live(**flags: str | None) -> None:
    """List every live credential, the newest first, without its secret."""
    with _refusals():
        settings = load_settings(os.environ, flags=flags)
        from steelyard.hub.startup import live_credentials  # noqa: PLC0415  # It loads the extra `hub`.

        with naming_the_database(settings.database):
            credentials = live_credentials(settings.database)
    for credential in credentials:
        made = credential.created_at.isoformat(timespec="seconds")
        click.echo(f"{credential.public_id}  {credential.role:8}  {made}  {credential.name}")


@rescue.command("revoke")
@click.argument("public_id")
@setting_flags(TABLE, names=("database",))
def revoke_live(public_id: str, **flags: str | None) -> None:
    """End a credential by its PUBLIC_ID, the third part of its secret; `-` reads it from stdin.

    The whole secret will do on stdin, such as one that was found where it should not be.
    """
    with _refusals():
        settings = load_settings(os.environ, flags=flags)
        from steelyard.hub.startup import revoke_locally  # noqa: PLC0415  # It loads the extra `hub`.

        sent = sys.stdin.read() if public_id == "-" else public_id
        with naming_the_database(settings.database):
            credential = revoke_locally(settings.database, sent)
    click.echo(f"{credential.public_id} is revoked: {credential.role}, {credential.name}")
