"""Three real decisions: starts a decision server on the embedded model and asks it, as a caller would.

It uses nothing of steelyard's but its command line and HTTP, so it is also an example of a client.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import secrets
import signal
import subprocess
import sys
import threading
import time
from collections import deque
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx2

if TYPE_CHECKING:
    from collections.abc import Iterator

STEELYARD = Path(sys.executable).with_name("steelyard")
BAR_WIDTH = 40

TICKET: dict[str, Any] = {
    "id": "route-ticket",
    "state": (
        "From: Marta\nSubject: Charged twice\n\nI renewed my yearly plan on Monday and my bank shows the same amount "
        "twice. The app itself works fine. Please send one of the two payments back."
    ),
    "question": "Which team should answer this ticket?",
    "options": [
        {"id": "billing", "description": "Billing: payments, invoices and refunds"},
        {"id": "technical", "description": "Technical support: errors, crashes and outages"},
        {"id": "sales", "description": "Sales: prices, offers and new contracts"},
    ],
    "orderings": "rotations",
}
ORDER: dict[str, Any] = {
    "id": "delivered",
    "state": {
        "order": "A-1007",
        "items": ["kettle", "toaster"],
        "paid": True,
        "status": "delivered",
        "delivered_on": "2026-03-02",
        "signed_by": "J. Weber",
    },
    "question": "Has the order been delivered?",
    "options": [{"id": "yes", "description": "Yes"}, {"id": "no", "description": "No"}],
}
CALL = (
    "Agent: Good morning, how can I help?\nCaller: My parcel should have come on Friday. It is Tuesday and I have "
    "nothing.\nAgent: I am sorry. I see that the address lacks the house number. Is it 14?\nCaller: Yes, 14b. I "
    "need it before Thursday, it is a birthday present.\nAgent: I corrected it and marked the parcel as urgent. It "
    "will be with you tomorrow.\nCaller: Thank you, that is great."
)
QUESTIONS = {
    "late": "Is the caller's parcel late?",
    "refund": "Does the caller ask for a refund?",
    "address": "Was the delivery address incomplete?",
    "solved": "Did the agent solve the caller's problem?",
    "angry": "Is the caller angry at the end of the call?",
}


def main() -> None:
    """Start the server, ask, show, and go on serving until Ctrl-C unless told otherwise."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--once", action="store_true", help="stop after the three decisions")
    parser.add_argument("--model", default="embedded", help="the SEMIF_MODEL to serve (default: embedded)")
    arguments = parser.parse_args()
    end_on_signals()
    # A terminal that cannot show the bars shows question marks.
    sys.stdout.reconfigure(errors="replace")  # type: ignore[union-attr]  # It is a text stream here.
    token = secrets.token_hex(32)
    with running_server(arguments.model, token) as url:
        show_decisions(url, token)
        if not arguments.once:
            show_how_to_repeat(url, token)
            wait_for_ctrl_c()


def end_on_signals() -> None:
    """Leave in order on SIGTERM and when the terminal is closed, so that the server is not left behind."""
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda received, _frame: sys.exit(128 + received))


@contextmanager
def running_server(model: str, token: str) -> Iterator[str]:
    """Run a decision server and yield its address; it is asked to end, and waited for, at the end of the block."""
    print(f"Starting the decision server on the model `{model}` …", flush=True)
    command = [str(STEELYARD), "decide", "serve", "--model", model, "--device", "cpu", "--port", "0"]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("SEMIF_")}
    if "SEMIF_MODELS_DIR" in os.environ:
        environment["SEMIF_MODELS_DIR"] = os.environ["SEMIF_MODELS_DIR"]
    started = time.perf_counter()
    # The server gets Ctrl-C through us, not beside us: its own group keeps the terminal's signal away.
    server = subprocess.Popen(
        command,
        env=environment | {"SEMIF_API_TOKEN": token},
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    last_lines: deque[str] = deque(maxlen=50)
    try:
        url = address_of(server)
        # A full pipe would block the server, so the rest of its log is read and its end kept.
        threading.Thread(target=last_lines.extend, args=(server.stderr,), daemon=True).start()
        print(f"It listens on {url}, model loaded and warm after {time.perf_counter() - started:.1f} s.\n")
        yield url
    finally:
        server.send_signal(signal.SIGTERM)
        if server.wait() != 0:
            print(f"The server ended with exit code {server.returncode}:\n{''.join(last_lines)}", file=sys.stderr)


def address_of(server: subprocess.Popen[str]) -> str:
    """Return the address that *server* logs once it listens; leaves with what it said where it never does."""
    said = ""
    for line in server.stderr or ():
        said += line
        if found := re.search(r"Serving .* on (http://\S+)", line):
            return found[1]
    sys.exit(f"The server did not start:\n{said}")


def show_decisions(url: str, token: str) -> None:
    """Ask the three questions and print what came back."""
    with httpx2.Client(base_url=url, headers={"Authorization": f"Bearer {token}"}, timeout=600) as client:
        print("1. A ticket is routed, averaged over the three rotations of its options (POST /decide)")
        routed = ask(client, "/decide", TICKET)
        show_bars(TICKET["question"], routed["option_ids"], routed["combined"]["probabilities"])
        show_own_order(routed)
        print("2. A yes/no question on a JSON state (POST /decide)")
        answer = ask(client, "/decide", ORDER)
        show_bars(ORDER["question"], answer["option_ids"], answer["probabilities"])
        print()
        print("3. Five questions over one phone call, each averaged over both orders of its options (/decide/shared)")
        answer = ask(client, "/decide/shared", five_questions())
        for result in answer["results"]:
            show_bars(QUESTIONS[result["id"]], result["option_ids"], result["combined"]["probabilities"])
        timing = answer["timing"]
        print(
            f"   The {timing['prefix_tokens']} tokens that all ten rows share went through the model once, then "
            f"{timing['true_suffix_tokens']} tokens of their own.\n"
        )


def five_questions() -> dict[str, Any]:
    """Return the body of the shared call."""
    options = [{"id": "yes", "description": "Yes"}, {"id": "no", "description": "No"}]
    decisions = [
        {"id": name, "question": question, "options": options, "orderings": "rotations"}
        for name, question in QUESTIONS.items()
    ]
    return {"state": CALL, "decisions": decisions}


def ask(client: httpx2.Client, path: str, body: dict[str, Any]) -> dict[str, Any]:
    """Post *body* and return the answer; prints how long it took."""
    started = time.perf_counter()
    response = client.post(path, json=body)
    seconds = time.perf_counter() - started
    if response.status_code != 200:
        sys.exit(f"The server answered {response.status_code}: {response.text}")
    print(f"   answered in {seconds:.2f} s")
    answer: dict[str, Any] = response.json()
    return answer


def show_own_order(averaged: dict[str, Any]) -> None:
    """Print what the caller's own order alone gave: a small model leans towards some letters."""
    first = averaged["orderings"][0]
    shares = ", ".join(f"{n} {p:.0%}" for n, p in zip(first["option_ids"], first["probabilities"], strict=True))
    print(f"   In your order alone it says: {shares}. Averaging takes the letters' pull away.\n")


def show_bars(question: str, names: list[str], probabilities: list[float]) -> None:
    """Print each option with its probability as a bar."""
    print(f"   {question}")
    for name, probability in zip(names, probabilities, strict=True):
        bar = "█" * round(probability * BAR_WIDTH)
        print(f"     {name:>10} {probability:6.1%} {bar}")


def show_how_to_repeat(url: str, token: str) -> None:
    """Print a command line that asks the first question again."""
    body = json.dumps(TICKET).replace("'", "'\\''")
    print("Ask again from another terminal:\n")
    print(f"curl -s {url}/decide -H 'Authorization: Bearer {token}' -d '{body}'\n")


def wait_for_ctrl_c() -> None:
    """Wait for Ctrl-C."""
    print("Serving until Ctrl-C.", flush=True)
    try:
        signal.pause()
    except KeyboardInterrupt:
        print("\nStopping.")


if __name__ == "__main__":
    main()
