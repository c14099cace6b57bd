"""One command's conversation with a hub: where it is, who asks, and how a refusal is told."""

from __future__ import annotations

import os
from contextlib import contextmanager
from typing import TYPE_CHECKING

import click

from steelyard.client import BadAddress, BadCredential, HubClient, Refused
from steelyard.hall.errors import SteelyardError
from steelyard.hub.remote.errors import BadFile, ToldRefusal, WrongUse
from steelyard.hub.settings import REMOTE_CREDENTIAL, REMOTE_URL
from steelyard.shell.refusals import EXIT_FAILED, EXIT_REFUSED, refusals_as_sentences

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

DEFAULT_URL = "http://127.0.0.1:8470"
_EXIT_CODES: Mapping[type[SteelyardError], int] = {
    WrongUse: EXIT_REFUSED,
    BadFile: EXIT_REFUSED,
    BadAddress: EXIT_REFUSED,
    BadCredential: EXIT_REFUSED,
    SteelyardError: EXIT_FAILED,
}
url_option = click.Option(
    ["--url"], metavar="URL", help=f"The hub's address.  [{REMOTE_URL}; default: {DEFAULT_URL}]"
)  # fmt: skip


@contextmanager
def refusals() -> Iterator[None]:
    """End the process with one sentence where the block raises an error of ours."""
    with refusals_as_sentences(_EXIT_CODES, when_interrupted="look with `list` at what was done.", extra="hub"):
        yield


@contextmanager
def asking(url: str | None) -> Iterator[HubClient]:
    """Give a client of the hub at *url*, or where the environment says; refusals end the process in words."""
    with refusals(), HubClient(url or os.environ.get(REMOTE_URL) or DEFAULT_URL, credential=_credential()) as client:
        try:
            yield client
        except Refused as refused:
            raise ToldRefusal(sentence_of(refused)) from refused


def sentence_of(refused: Refused) -> str:
    """Return the hub's words with the code, and a line for each rule that was broken where there are several."""
    if not refused.faults:
        return f"{refused} [{refused.code}]"
    rules = [f"{fault.where.partition('.')[2] or fault.where}: {fault.rule}" for fault in refused.faults]
    return f"The hub does not take this [{refused.code}]" + "".join(f"\n  {rule}" for rule in rules)


def _credential() -> str:
    credential = os.environ.get(REMOTE_CREDENTIAL)
    if not credential:
        raise WrongUse(
            f"{REMOTE_CREDENTIAL} is required: set it to an operator's or a viewer's credential, such as the one that "
            "`steelyard hub init` shows. It has no flag, since command lines are public"
        )
    return credential
