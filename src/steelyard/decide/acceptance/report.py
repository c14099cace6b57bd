"""The report of an acceptance run: `report.json` for machines, `report.md` for people. It holds no row's text.

Files are named without their folders, so that a report can be shown to anybody.
"""

from __future__ import annotations

import html
import json
import math
import re
from dataclasses import asdict, dataclass
from importlib.metadata import version
from typing import TYPE_CHECKING, cast

from steelyard.decide.acceptance.checks import NOISE, PARITY, SHARED, Check, Verdict
from steelyard.hall.texts import shorten, without_folder

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime
    from pathlib import Path

    from steelyard.decide.acceptance.outcome import Outcome
    from steelyard.decide.acceptance.run import Task
    from steelyard.decide.domain.ports import Engine

_MOST_FLIPS = 40
# What Markdown would take for a table's border, code, emphasis, a link, a picture or a formula.
_MARKS = re.compile(r"[\\`*\[\]|~$]|(?<!\w)_|_(?!\w)")
_PASSES_OF = {
    PARITY: ("the reference", "direct"),
    NOISE: ("the first direct pass", "the second"),
    SHARED: ("direct", "shared"),
}
_LAST_WORDS = (
    "Every number is in `report.json`; what each check means and what to do when one fails is in "
    "`docs/howto/accept.md`.\n"
)


@dataclass(frozen=True)
class Circumstances:
    """When and how the run was made; *settings* are those that scoring reads."""

    started_at: datetime
    ended_at: datetime
    settings: Mapping[str, object]


def report_of(outcome: Outcome, *, task: Task, engine: Engine, circumstances: Circumstances) -> dict[str, object]:
    """Return everything that is known about the run, as JSON values; a number that is not finite is null."""
    rows, reference = task.rows, task.reference
    report: dict[str, object] = {
        "verdict": "failed" if outcome.is_failed else "passed",
        "steelyard_version": version("steelyard"),
        "started_at": circumstances.started_at.isoformat(timespec="seconds"),
        "ended_at": circumstances.ended_at.isoformat(timespec="seconds"),
        "model": _nameable(engine.model),
        "engine": asdict(engine.traits) | {"serving_config": dict(engine.serving_config)},
        "settings": _nameable(circumstances.settings),
        "repeats": task.repeats,
        "rows": {
            "file": rows.path.name, "sha256": rows.sha256, "rows": len(rows.rows), "labelled": len(rows.labels)
        },
        "reference": {
            "file": reference.path.name, "sha256": reference.sha256, "model": _nameable(reference.model or {})
        },
        "accuracy": dict(outcome.accuracy),
        "checks": [asdict(check) for check in outcome.checks],
    }  # fmt: skip
    return cast("dict[str, object]", _finite(report))


def markdown_of(report: Mapping[str, object], outcome: Outcome, *, plot: str | None) -> str:
    """Return *report* as a page; *plot* is the name of the picture beside it."""
    model = cast("dict[str, object]", report["model"])
    parts = [
        f"# Acceptance of {_text(model.get('source'))}: {report['verdict']}\n",
        _facts(report),
        _table(("check", "verdict", "key numbers"), [(c.name, c.verdict, c.summary) for c in outcome.checks]),
        *([f"![Gaps per row, agreement and accuracy]({plot})\n"] if plot else []),
        _accuracy(outcome),
        *(_flips(check) for check in outcome.checks),
        _LAST_WORDS,
    ]
    return "\n".join(part for part in parts if part)


def title_of(report: Mapping[str, object]) -> str:
    """Return the report's headline."""
    model, rows = cast("dict[str, object]", report["model"]), cast("dict[str, object]", report["rows"])
    where = f"{model.get('dtype')} on {model.get('device')}"
    return shorten(f"{model.get('source')}, {where}, {rows['rows']} rows: {report['verdict']}", limit=110)


def write_report(folder: Path, report: Mapping[str, object], page: str) -> None:
    """Write both files into *folder*; raises OSError."""
    content = json.dumps(report, ensure_ascii=False, allow_nan=False, indent=2)
    (folder / "report.json").write_text(content + "\n", encoding="utf-8")
    (folder / "report.md").write_text(page, encoding="utf-8")


def _facts(report: Mapping[str, object]) -> str:
    model, engine, rows, reference = (
        cast("dict[str, object]", report[name]) for name in ("model", "engine", "rows", "reference")
    )
    facts = [(f"model {key}", value) for key, value in model.items() if value is not None]
    facts += [
        ("engine", engine["name"] if engine["is_model"] else f"{engine['name']}, which is no model"),
        ("rows", f"{rows['file']}, {rows['rows']} rows, {rows['labelled']} labelled, SHA-256 {rows['sha256']}"),
        ("reference", f"{reference['file']}, SHA-256 {reference['sha256']}"),
        ("run", f"{report['started_at']} to {report['ended_at']}, steelyard {report['steelyard_version']}"),
    ]
    return _table(("fact", "value"), facts)


def _accuracy(outcome: Outcome) -> str:
    known = [(name, f"{value:.4f}") for name, value in outcome.accuracy.items() if value is not None]
    return f"## Accuracy on the labelled rows\n\n{_table(('scorer', 'accuracy'), known)}" if known else ""


def _flips(check: Check) -> str:
    """Return the flips of a check that failed; elsewhere they tell nothing, and `report.json` has them all."""
    flips = cast("list[dict[str, object]]", check.figures.get("flips", []))
    if check.verdict is not Verdict.FAILED or not flips:
        return ""
    rows = [(f["id"], f["before"], f["after"], f"{f['lead']:.3g}") for f in flips[:_MOST_FLIPS]]
    more = f"\n{len(flips) - _MOST_FLIPS} more are in `report.json`.\n" if len(flips) > _MOST_FLIPS else ""
    first, second = _PASSES_OF[check.name]
    head = ("row", first, second, f"lead of {first}, in logits")
    return f"## Rows that flip: {check.name}\n\n{_table(head, rows)}{more}"


def _table(head: tuple[str, ...], rows: Sequence[tuple[object, ...]]) -> str:
    lines = [head, tuple("---" for _ in head), *(tuple(map(_text, row)) for row in rows)]
    return "".join("| " + " | ".join(line) + " |\n" for line in lines)


def _text(value: object) -> str:
    """Return *value* as a page may show it, letter for letter, whatever somebody's ids and names are made of."""
    return _MARKS.sub(r"\\\g<0>", html.escape(shorten(str(value), limit=400), quote=False))


def _nameable(facts: Mapping[str, object]) -> dict[str, object]:
    """Return *facts* with every path of a file as its name: where it lies is this machine's own business."""
    return {key: without_folder(value) if isinstance(value, str) else value for key, value in facts.items()}


def _finite(value: object) -> object:
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
