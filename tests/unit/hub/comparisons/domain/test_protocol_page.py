"""The page of the protocol has the protocol's own answers. Run this file to write its table anew, and look at it."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

from tests.unit.hub.comparisons.protocol_makers import CASES, REVISION, T0, TOKEN, call, in_state

from steelyard.hub.comparisons.domain import protocol, tokens
from steelyard.hub.comparisons.domain.comparison import (
    CLAIM_EXPIRED,
    RESTORE_INTERRUPTED,
    TARGET_CHANGED,
    Status,
)
from steelyard.hub.comparisons.domain.protocol import Verdict
from steelyard.hub.errors import EvidenceMissing
from steelyard.hub.rest.problems import status_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from steelyard.hub.comparisons.domain.comparison import Comparison

PAGE = Path(__file__).parents[5] / "docs" / "comparisons.md"
PART = re.compile(r"(<!-- protocol table -->\n).*?(<!-- end -->)", re.DOTALL)
STATES: tuple[Status, ...] = get_args(Status)
ENDED = ("completed", "failed", "cancelled")
CAUSES = (CLAIM_EXPIRED, TARGET_CHANGED, RESTORE_INTERRUPTED)
OTHER = "9" * 64  # The digest of a call that did not end the comparison.


def claim(comparison: Comparison, *, is_drifted: bool = False) -> Verdict:
    return protocol.claim(comparison, token_sha256=tokens.token_sha256(TOKEN), is_drifted=is_drifted, now=T0)


def progress(comparison: Comparison, *, token: str = TOKEN, current: int = 2) -> Verdict:
    return protocol.progress(comparison, call(token=token, sha256=None), current=current, candidate=2)


def result(comparison: Comparison, **fields: Any) -> Verdict:
    good = {"pins_digest": comparison.pins_digest, "is_drifted": False, "fault": None, "revision": REVISION}
    return protocol.publish(comparison, call(sha256=OTHER), **{**good, **fields})


def finish(comparison: Comparison, outcome: protocol.Ending) -> Verdict:
    return protocol.finish(comparison, call(sha256=OTHER), outcome=outcome, error_code=None)


def of_another(comparison: Comparison) -> Verdict:
    """Return what all three calls of a holder come to with another token."""
    other, pins = call(token="another", sha256=OTHER), comparison.pins_digest
    verdict = progress(comparison, token="another")
    refused = [
        protocol.publish(comparison, other, pins_digest=pins, is_drifted=False, fault=None, revision=REVISION),
        protocol.finish(comparison, other, outcome="failed", error_code=None),
    ]
    assert [told(comparison, each) for each in refused] == [told(comparison, verdict)] * 2
    return verdict


def cancel(comparison: Comparison, *, difference: int = 0) -> Verdict:
    return protocol.cancel(comparison, expected_version=comparison.version + difference, now=T0)


def expired(comparison: Comparison) -> Verdict:
    return Verdict(protocol.reconciled(comparison, now=T0 + protocol.LEASE))


def restored(comparison: Comparison) -> Verdict:
    return Verdict(protocol.restored(comparison, now=T0)) if comparison.is_active else Verdict(comparison)


ROWS: Mapping[str, Callable[[Comparison], Verdict]] = {
    "`claim`": claim,
    "`claim`, target changed": lambda comparison: claim(comparison, is_drifted=True),
    "`progress`": progress,
    "`progress` with a count that fell": lambda comparison: progress(comparison, current=0),
    "`progress` with a count over the suite's": lambda comparison: progress(comparison, current=CASES + 1),
    "`result`": result,
    "`result` with another `pins_digest`": lambda comparison: result(comparison, pins_digest="0" * 64),
    "`result`, target changed": lambda comparison: result(comparison, is_drifted=True),
    "`result` without good evidence": lambda comparison: result(comparison, fault=EvidenceMissing()),
    '`finish` with `"failed"`': lambda comparison: finish(comparison, "failed"),
    '`finish` with `"cancelled"`': lambda comparison: finish(comparison, "cancelled"),
    "`progress`, `result`, `finish` with another token": of_another,
    "`cancel`": cancel,
    "`cancel` with another version": lambda comparison: cancel(comparison, difference=7),
    "lease or deadline passes": expired,
    "the database is restored": restored,
}


def told(before: Comparison, verdict: Verdict) -> str:
    """Return one cell: the code of a refusal, and the state where it changes; nothing where nothing is to tell."""
    is_moved = verdict.after.status != before.status
    if verdict.refusal is None:
        return f"→ `{verdict.after.status}`" if is_moved else "stays"
    if verdict.refusal.code == before.error_code:
        return f"{status_of(verdict.refusal)} its `error_code`"
    code = verdict.refusal.code.removeprefix("COMPARISON_")
    moved = f", → `{verdict.after.status}`" if is_moved else ""
    return f"{status_of(verdict.refusal)} `{code}`{moved}"


def befores(state: Status) -> list[Comparison]:
    """Return the comparison in *state*, one for each cause that there is."""
    causes = CAUSES if state == "interrupted" else (in_state(state).error_code,)
    return [
        replace(in_state(state), error_code=cause, current_completed_cases=1, candidate_completed_cases=1)
        for cause in causes
    ]


def cells(act: Callable[[Comparison], Verdict]) -> list[str]:
    """Return a row's cells; the three ends of the consumer's and the operator's making are one."""
    by_state = {state: {told(before, act(before)) for before in befores(state)} for state in STATES}
    assert by_state["completed"] == by_state["failed"] == by_state["cancelled"]
    return [the_only(by_state[state]) for state in STATES if state not in ENDED[1:]]


def the_only(cells: set[str]) -> str:
    [cell] = cells
    return cell


def table() -> str:
    head = ["call", *(f"`{state}`" for state in STATES if state not in ENDED[1:])]
    head[head.index("`completed`")] = ", ".join(f"`{state}`" for state in ENDED)
    lines = [head, ["---"] * len(head), *([name, *cells(act)] for name, act in ROWS.items())]
    return "".join("| " + " | ".join(line) + " |\n" for line in lines)


def test_the_page_has_the_protocol_s_own_table():
    [(_begin, _end)] = PART.findall(PAGE.read_text(encoding="utf-8"))
    assert table() in PAGE.read_text(encoding="utf-8")


def test_the_page_has_the_protocol_s_own_drawing():
    drawing = str(protocol.__doc__).split("\n\n", 1)[1].split("\n\nEvery")[0]
    assert drawing in PAGE.read_text(encoding="utf-8")


if __name__ == "__main__":
    page = PAGE.read_text(encoding="utf-8")
    PAGE.write_text(PART.sub(lambda match: f"{match[1]}{table()}{match[2]}", page), encoding="utf-8")
