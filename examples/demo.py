"""The demo: starts the product on small real models, shows what it does, and serves until Ctrl-C.

It uses nothing of steelyard's but its command line and HTTP.
"""

from __future__ import annotations

import argparse
import signal
import sys
from contextlib import ExitStack
from pathlib import Path

from examples.decisions import deciding, show_decisions, show_how_to_decide
from examples.embeddings import show_embeddings, show_how_to_embed, weighing


def main() -> None:
    """Start the servers, ask, show, and go on serving until Ctrl-C unless told otherwise."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--once", action="store_true", help="stop after the show")
    parser.add_argument("--model", default="embedded", help="the SEMIF_MODEL to decide with (default: embedded)")
    parser.add_argument("--folder", type=Path, default=Path("var/demo"), help="where the hub's database is made anew")
    arguments = parser.parse_args()
    end_on_signals()
    # A terminal that cannot show the bars shows question marks.
    sys.stdout.reconfigure(errors="replace")  # type: ignore[union-attr]  # It is a text stream here.
    with ExitStack() as servers:
        hub = servers.enter_context(weighing(arguments.folder))
        show_embeddings(hub)
        decider = servers.enter_context(deciding(arguments.model))
        show_decisions(decider)
        if not arguments.once:
            show_how_to_embed(hub)
            show_how_to_decide(decider)
            wait_for_ctrl_c()


def end_on_signals() -> None:
    """Leave in order on SIGTERM and when the terminal is closed, so that no server is left behind."""
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda received, _frame: sys.exit(128 + received))


def wait_for_ctrl_c() -> None:
    """Wait for Ctrl-C."""
    print("Serving until Ctrl-C.", flush=True)
    try:
        signal.pause()
    except KeyboardInterrupt:
        print("\nStopping.")


if __name__ == "__main__":
    main()
