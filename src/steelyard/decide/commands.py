"""`steelyard decide …`: the decision server and its batch scorer on the command line."""

from __future__ import annotations

import logging
import os
import signal
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from steelyard.decide.batch import MODES, BatchLimits, BatchRefused, count_rows, score_file
from steelyard.decide.model_thread import ModelThread
from steelyard.decide.server import serve as serve_engine
from steelyard.decide.settings import SETTINGS, BadSetting, load_settings
from steelyard.decide.startup import StartRefused, start_engine, warm_up

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from steelyard.decide.domain.ports import Engine
    from steelyard.decide.settings import Settings

Command = TypeVar("Command", bound="Callable[..., Any]")
_EXIT_REFUSED = 2
_EXIT_ERROR_RECORDS = 1
_EXIT_INTERRUPTED = 130
# What a batch run reads of the settings; the others are about serving.
_SCORING_SETTINGS = (
    "model",
    "revision",
    "engine",
    "device",
    "vram_cap_gib",
    "max_tokens",
    "max_decisions",
    "models_dir",
    "threads",
    "fake_seconds",
)


def _setting_flags(names: tuple[str, ...]) -> Callable[[Command], Command]:
    """Add one flag per setting. A flag's text is checked by the setting's own rule, so click takes any."""

    def decorate(command: Command) -> Command:
        for setting in reversed([setting for setting in SETTINGS if setting.has_flag and setting.name in names]):
            text = f"{setting.meaning}  [{setting.variable}; default: {setting.shown_default}]"
            command = click.option(setting.flag, setting.name, default=None, metavar="TEXT", help=text)(command)
        return command

    return decorate


@click.group()
def decide() -> None:
    """Decide typed questions about evidence with a language model's logits."""


@decide.command()
@_setting_flags(tuple(setting.name for setting in SETTINGS))
@click.option("--host", default=None, help="Host to listen on; wins over --bind.")
@click.option("--port", default=None, help="Port to listen on; wins over --bind.")
def serve(**flags: str | None) -> None:
    """Serve decisions over HTTP.

    The token that callers must send comes from the environment variable SEMIF_API_TOKEN (at least 32 visible ASCII
    characters) and has no flag. Every other setting is a flag or a SEMIF_ variable; the flag wins. The port opens only
    after the model is loaded and one warm-up decision has scored.

    Try it without a model: SEMIF_API_TOKEN=$(openssl rand -hex 32) steelyard decide serve --model fake
    """
    _stay_offline()
    _log_to_stderr()
    with _refusals_as_sentences():
        settings = load_settings(os.environ, flags=flags)
        code = serve_engine(settings, _start(settings))
    sys.exit(code)


@decide.command()
@click.option(
    "--mode", type=click.Choice(MODES), required=True, help="One fresh pass per row, or one prefix per state."
)
@click.option(
    "--input", "input_path", type=click.Path(path_type=Path), required=True, help="JSON lines, one row {id, state, "
    "question, options} on each; in shared mode, neighbours with the same state are scored together.",
)  # fmt: skip
@click.option(
    "--output", "output_path", type=click.Path(path_type=Path), required=True, help="JSON lines, one result or error "
    "record for each row, in order. An output that was cut off is gone on with.",
)  # fmt: skip
@_setting_flags(_SCORING_SETTINGS)
def score(mode: str, input_path: Path, output_path: Path, **flags: str | None) -> None:
    """Score a file of rows.

    A row that cannot be scored becomes an error record with its line number and the rest goes on. Records stay when a
    run is gone on with, error records too: to score those rows again, write to a new output. Exit code: 0 if
    every row was scored, 1 if some became error records, 2 if the run was refused, 130 if it was interrupted.
    """
    _stay_offline()
    _log_to_stderr()
    with _refusals_as_sentences():
        settings = load_settings(os.environ, flags=flags, needs_token=False)
        total = count_rows(input_path)
        thread = ModelThread(_start(settings), warm_up=warm_up, on_poisoned=lambda: None)
        limits = BatchLimits(max_tokens=settings.max_tokens, max_decisions=settings.max_decisions)
        try:
            with click.progressbar(length=total, label="Scoring", file=sys.stderr, show_pos=True) as bar:
                failed = score_file(
                    input_path, output_path, mode=mode, thread=thread, limits=limits, on_rows=bar.update
                )
        finally:
            thread.close()
    click.echo(f"{bar.pos - failed} of {bar.pos} rows scored, {failed} error records; see {output_path}", err=True)
    sys.exit(_EXIT_ERROR_RECORDS if failed else 0)


def _start(settings: Settings) -> Engine:
    """Start the engine. Meanwhile Ctrl-C ends the process at once.

    Python would raise it in the first Python code that runs, which may be a callback from C code that drops it.
    """
    previous = signal.signal(signal.SIGINT, signal.SIG_DFL)
    try:
        return start_engine(settings, environ=os.environ)
    finally:
        signal.signal(signal.SIGINT, previous)


def _stay_offline() -> None:
    """Keep model libraries from the network, whatever the environment says; they read this when they are imported."""
    os.environ["HF_HUB_OFFLINE"] = "1"


def _log_to_stderr() -> None:
    logging.basicConfig(level=logging.INFO, stream=sys.stderr, format="%(asctime)s %(levelname)s %(name)s %(message)s")
    logging.getLogger("uvicorn").setLevel(logging.WARNING)


@contextmanager
def _refusals_as_sentences() -> Iterator[None]:
    try:
        yield
    except (BadSetting, StartRefused, BatchRefused) as error:
        click.echo(f"Error: {error}", err=True)
        sys.exit(_EXIT_REFUSED)
    except KeyboardInterrupt:
        click.echo("\nInterrupted: run the same command again; a batch goes on where it stopped.", err=True)
        sys.exit(_EXIT_INTERRUPTED)
