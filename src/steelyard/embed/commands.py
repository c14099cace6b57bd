"""`steelyard embed …`: the embedding server on the command line."""

from __future__ import annotations

import functools
import os
import signal
import sys
from typing import TYPE_CHECKING

import click

from steelyard.embed.server import serve as serve_runtime
from steelyard.embed.settings import SETTINGS, load_settings
from steelyard.embed.startup import StartRefused, start_runtime
from steelyard.hall.settings import BadSetting
from steelyard.shell.flags import host_and_port_flags, setting_flags
from steelyard.shell.logs import log_to_stderr
from steelyard.shell.refusals import EXIT_REFUSED, refusals_as_sentences

if TYPE_CHECKING:
    from steelyard.embed.domain.ports import Runtime
    from steelyard.embed.settings import Settings

_refusals = functools.partial(
    refusals_as_sentences,
    dict.fromkeys((BadSetting, StartRefused), EXIT_REFUSED),
    when_interrupted="nothing was served.",
)


@click.group()
def embed() -> None:
    """Turn texts into vectors with a small model on the processor."""


@embed.command()
@setting_flags(SETTINGS)
@host_and_port_flags
def serve(**flags: str | None) -> None:
    """Serve embeddings over HTTP, in OpenAI's shape.

    One process serves one model: for several models, start several processes on several ports. The token that callers
    must send, which OpenAI's clients call the API key, comes from the environment variable STEELYARD_EMBED_API_TOKEN
    (at least 32 visible ASCII characters) and has no flag. Every other setting is a flag or a STEELYARD_EMBED_
    variable; the flag wins. The port opens only after the model's files are verified and the warm-up texts have
    embedded.

    Try it: steelyard models pull all-minilm-l6-v2-int8, then
    STEELYARD_EMBED_API_TOKEN=$(openssl rand -hex 32) steelyard embed serve
    """
    os.environ["TOKENIZERS_PARALLELISM"] = "false"  # One thread makes tokens; the cores are the model's.
    log_to_stderr(only_warnings_of=("uvicorn",))
    with _refusals():
        settings = load_settings(os.environ, flags=flags)
        code = serve_runtime(settings, _start(settings))
    sys.exit(code)


def _start(settings: Settings) -> Runtime:
    """Start the runtime. Meanwhile Ctrl-C ends the process at once, even inside a library's own code."""
    previous = signal.signal(signal.SIGINT, signal.SIG_DFL)
    try:
        return start_runtime(settings, environ=os.environ)
    finally:
        signal.signal(signal.SIGINT, previous)
