"""Refusals as sentences and exit codes."""

from __future__ import annotations

import click
import pytest
from click.testing import CliRunner

from steelyard.hall.errors import SteelyardError
from steelyard.shell.refusals import EXIT_INTERRUPTED, EXIT_REFUSED, refusals_as_sentences


class Small(SteelyardError):
    """Something small went wrong."""


class Smaller(Small):
    """Something smaller went wrong."""


def outcome(error: BaseException, *, extra: str | None = None) -> tuple[int, str]:
    @click.command()
    def command() -> None:
        with refusals_as_sentences({Smaller: 7, Small: 2}, when_interrupted="go on.", extra=extra):
            raise error

    result = CliRunner().invoke(command)
    return result.exit_code, result.stderr


def test_a_refusal_is_a_sentence_and_the_first_code_that_fits():
    assert outcome(Small()) == (2, "Error: Something small went wrong.\n")
    assert outcome(Smaller("Tiny.")) == (7, "Error: Tiny.\n")


def test_a_library_that_an_extra_would_bring_is_named_with_its_extra():
    missing = ModuleNotFoundError("No module named 'sqlalchemy'", name="sqlalchemy")
    sentence = (
        "Error: This command needs the extra `hub`; in a checkout of steelyard run: pip install '.[hub]' "
        "(No module named 'sqlalchemy').\n"
    )
    assert outcome(missing, extra="hub") == (EXIT_REFUSED, sentence)
    assert outcome(ModuleNotFoundError(name="steelyard.lost"), extra="hub") == (
        1,
        "",
    )  # A fault of ours, with its trace.
    assert outcome(missing) == (1, "")


def test_an_interruption_says_how_to_go_on():
    assert outcome(KeyboardInterrupt()) == (EXIT_INTERRUPTED, "\nInterrupted: go on.\n")


def test_what_is_not_in_the_table_is_no_refusal():
    with pytest.raises(SteelyardError), refusals_as_sentences({Small: 2}, when_interrupted=""):
        raise SteelyardError
