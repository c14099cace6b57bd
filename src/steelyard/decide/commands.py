"""`steelyard decide …`: the decision server and its batch scorer on the command line."""

from __future__ import annotations

import functools
import os
import signal
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

from steelyard.decide.acceptance.errors import AcceptanceRefused
from steelyard.decide.acceptance.run import prepare
from steelyard.decide.acceptance.run import run as run_acceptance
from steelyard.decide.batch import MODES, BatchLimits, BatchRefused, count_rows, score_file
from steelyard.decide.model_thread import ModelThread
from steelyard.decide.server import serve as serve_engine
from steelyard.decide.settings import SETTINGS, load_settings
from steelyard.decide.startup import StartRefused, start_engine, warm_up
from steelyard.hall.settings import BadSetting
from steelyard.shell.flags import host_and_port_flags, setting_flags
from steelyard.shell.logs import log_to_stderr
from steelyard.shell.progress import advance, progress_bar
from steelyard.shell.refusals import EXIT_REFUSED, refusals_as_sentences

if TYPE_CHECKING:
    from collections.abc import Iterator

    from steelyard.decide.domain.ports import Engine
    from steelyard.decide.settings import Settings

_EXIT_ERROR_RECORDS = 1
_EXIT_CHECK_FAILED = 1
_CHATTY = ("uvicorn", "matplotlib")
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
# A report says nothing of this machine's folders.
_REPORTED_SETTINGS = tuple(name for name in _SCORING_SETTINGS if name != "models_dir")
_refusals = functools.partial(
    refusals_as_sentences,
    dict.fromkeys((BadSetting, StartRefused, BatchRefused, AcceptanceRefused), EXIT_REFUSED),
    when_interrupted="run the same command again; a batch goes on where it stopped.",
)


@click.group()
def decide() -> None:
    """Decide typed questions about evidence with a language model's logits."""


@decide.command()
@setting_flags(SETTINGS)
@host_and_port_flags
def serve(**flags: str | None) -> None:
    """Serve decisions over HTTP.

    The token that callers must send comes from the environment variable SEMIF_API_TOKEN (at least 32 visible ASCII
    characters) and has no flag. Every other setting is a flag or a SEMIF_ variable; the flag wins. The port opens only
    after the model is loaded and one warm-up decision has scored.

    Try it without a model: SEMIF_API_TOKEN=$(openssl rand -hex 32) steelyard decide serve --model fake
    """
    _tame_libraries()
    log_to_stderr(only_warnings_of=_CHATTY)
    with _refusals():
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
@setting_flags(SETTINGS, names=_SCORING_SETTINGS)
def score(mode: str, input_path: Path, output_path: Path, **flags: str | None) -> None:
    """Score a file of rows.

    A row that cannot be scored becomes an error record with its line number and the rest goes on. Records stay when a
    run is gone on with, error records too: to score those rows again, write to a new output. Exit code: 0 if
    every row was scored, 1 if some became error records, 2 if the run was refused, 130 if it was interrupted.
    """
    _tame_libraries()
    log_to_stderr(only_warnings_of=_CHATTY)
    with _refusals():
        settings = load_settings(os.environ, flags=flags, needs_token=False)
        total = count_rows(input_path)
        with _model_thread(settings) as thread, progress_bar("Scoring", length=total) as bar:
            failed = score_file(
                input_path, output_path, mode=mode, thread=thread, limits=_limits(settings), on_rows=bar.update
            )
    click.echo(f"{bar.pos - failed} of {bar.pos} rows scored, {failed} error records; see {output_path}", err=True)
    sys.exit(_EXIT_ERROR_RECORDS if failed else 0)


@decide.command()
@click.option(
    "--rows", "rows_path", type=click.Path(path_type=Path), required=True, help="JSON lines, one row on each, every id "
    "once; `label`, the index of the right option, is optional.",
)  # fmt: skip
@click.option(
    "--reference", "reference_path", type=click.Path(path_type=Path), required=True, help="JSON lines, another "
    "scorer's result for each of these rows, such as an output of `score --mode direct`.",
)  # fmt: skip
@click.option(
    "--output", "folder", type=click.Path(path_type=Path), required=True, help="Folder for the passes and the report. "
    "A run that was interrupted is gone on with.",
)  # fmt: skip
@click.option("--repeats", type=click.IntRange(min=3), default=3, show_default=True, help="Calls that are timed.")
@click.option("--no-plot", is_flag=True, help="Draw no picture; it needs the extra `plots`.")
@setting_flags(SETTINGS, names=_SCORING_SETTINGS)
def accept(
    rows_path: Path, reference_path: Path, folder: Path, repeats: int, *, no_plot: bool, **flags: str | None
) -> None:
    """Show what this machine makes of a model: six checks and a report.

    Parity with a reference, noise floor, negative control, shared against direct, speed and memory. Exit code: 0 if
    no check failed, 1 if one did, 2 if the run was refused, 130 if it was interrupted.
    """
    _tame_libraries()
    log_to_stderr(only_warnings_of=_CHATTY)
    with _refusals():
        settings = load_settings(os.environ, flags=flags, needs_token=False)
        task = prepare(
            rows_path, reference_path, folder, limits=_limits(settings), repeats=repeats, is_plotted=not no_plot
        )
        with _model_thread(settings) as thread, progress_bar("Accepting", length=task.units) as bar:
            outcome = run_acceptance(
                task, thread=thread, settings={name: getattr(settings, name) for name in _REPORTED_SETTINGS},
                on_progress=lambda what, units: advance(bar, what, units),
            )  # fmt: skip
    for check in outcome.checks:
        click.echo(f"{check.name + ':':<23}{check.verdict}: {check.summary}")
    click.echo(f"The report is {folder / 'report.md'}")
    sys.exit(_EXIT_CHECK_FAILED if outcome.is_failed else 0)


@contextmanager
def _model_thread(settings: Settings) -> Iterator[ModelThread]:
    """Start the engine on its thread, and unload it at the end."""
    thread = ModelThread(_start(settings), warm_up=warm_up, on_poisoned=lambda: None)
    try:
        yield thread
    finally:
        thread.close()


def _limits(settings: Settings) -> BatchLimits:
    return BatchLimits(max_tokens=settings.max_tokens, max_decisions=settings.max_decisions)


def _start(settings: Settings) -> Engine:
    """Start the engine. Meanwhile Ctrl-C ends the process at once.

    Python would raise it in the first Python code that runs, which may be a callback from C code that drops it.
    """
    previous = signal.signal(signal.SIGINT, signal.SIG_DFL)
    try:
        return start_engine(settings, environ=os.environ)
    finally:
        signal.signal(signal.SIGINT, previous)


def _tame_libraries() -> None:
    """Keep model libraries from the network, whatever the environment says; they read this when they are imported."""
    os.environ["HF_HUB_OFFLINE"] = "1"
    if not sys.stderr.isatty():  # A log shows no bar; tqdm, which draws theirs, reads this too when it is imported.
        os.environ["TQDM_DISABLE"] = "1"
