"""Three real decisions: the demo's part that asks a decision server, as a caller would."""

from __future__ import annotations

import json
import secrets
import sys
import time
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import httpx2
from examples.servers import own_environment, running

if TYPE_CHECKING:
    from collections.abc import Iterator

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


@dataclass(frozen=True)
class Decider:
    """A running decision server, and the token that it takes."""

    url: str
    token: str

    def client(self) -> httpx2.Client:
        """Return a client that sends the token."""
        return httpx2.Client(base_url=self.url, headers={"Authorization": f"Bearer {self.token}"}, timeout=600)


@contextmanager
def deciding(model: str) -> Iterator[Decider]:
    """Run a decision server until the end of the block."""
    token = secrets.token_hex(32)
    command = ["decide", "serve", "--model", model, "--device", "cpu", "--port", "0"]
    what = f"the decision server on the model `{model}`"
    with running(what, command, environment=own_environment(SEMIF_API_TOKEN=token)) as url:
        yield Decider(url=url, token=token)


def show_decisions(server: Decider) -> None:
    """Ask the three questions and print what came back."""
    with server.client() as client:
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


def show_how_to_decide(server: Decider) -> None:
    """Print a command line that asks the first question again."""
    body = json.dumps(TICKET).replace("'", "'\\''")
    print("Ask the first question again from another terminal:\n")
    print(f"curl -s {server.url}/decide -H 'Authorization: Bearer {server.token}' -d '{body}'\n")
