"""How a command ends: a refusal is one sentence on stderr and an exit code, never a traceback."""

from __future__ import annotations

import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from steelyard.hall.errors import SteelyardError

EXIT_FAILED = 1
EXIT_REFUSED = 2
EXIT_INTERRUPTED = 130


@contextmanager
def refusals_as_sentences(
    exit_codes: Mapping[type[SteelyardError], int], *, when_interrupted: str, extra: str | None = None
) -> Iterator[None]:
    """End the process with a sentence where the block raises an error of *exit_codes*, the commands' one table.

    The first class that fits gives the code, so a class comes before its base. Ctrl-C ends it with *when_interrupted*,
    which says how to go on, and 130. A library of *extra* that is not installed ends it with 2 and how to install it.
    Any other error is a fault of ours, and shows its traceback.
    """
    try:
        yield
    except tuple(exit_codes) as error:
        click.echo(f"Error: {error}", err=True)
        sys.exit(next(code for kind, code in exit_codes.items() if isinstance(error, kind)))
    except ModuleNotFoundError as error:
        if extra is None or str(error.name).startswith("steelyard"):
            raise
        click.echo(f"Error: {needs_extra(extra)} ({error}).", err=True)
        sys.exit(EXIT_REFUSED)
    except KeyboardInterrupt:
        click.echo(f"\nInterrupted: {when_interrupted}", err=True)
        sys.exit(EXIT_INTERRUPTED)


def needs_extra(extra: str) -> str:
    """Return the sentence for whoever lacks *extra*, without its full stop."""
    return f"This command needs the extra `{extra}`; in a checkout of steelyard run: pip install '.[{extra}]'"
