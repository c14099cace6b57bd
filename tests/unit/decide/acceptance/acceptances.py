"""Whole acceptance runs over engines that stand for a card: files, a reference by the engine's twin, and the report."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tests.unit.decide.makers import ScriptedEngine

from steelyard.decide.acceptance.run import Task, prepare, run
from steelyard.decide.batch import BatchLimits
from steelyard.decide.domain.direct import score_direct
from steelyard.decide.domain.rows import parse_row
from steelyard.decide.model_thread import ModelThread
from steelyard.decide.startup import warm_up

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from steelyard.decide.acceptance.outcome import Outcome

ROWS = 12
MODEL = {"source": "org/model", "revision": "1", "dtype": "bfloat16", "device": "cuda:0"}


def hashed(tokens: Sequence[int], slots: Sequence[int]) -> list[float]:
    """Give each slot a logit in [0, 16) that every token before it decides."""
    return [hashlib.sha256(repr((list(tokens), slot)).encode()).digest()[0] / 16 for slot in slots]


@dataclass
class Card(ScriptedEngine):
    """An engine on a card that counts memory: a forward pass holds a MiB per token."""

    logits_of: Any = hashed
    model: Any = field(default_factory=lambda: dict(MODEL))

    def forward(self, tokens: Sequence[int], slots: Sequence[int]) -> list[float]:
        self.peak_gpu_bytes = max(self.peak_gpu_bytes or 0, len(tokens) * 2**20)
        return super().forward(tokens, slots)


def rows() -> list[dict[str, object]]:
    """Give rows of three options whose descriptions differ, four to a state."""
    return [
        {
            "id": f"größe-{i}",
            "state": f"Evidence {i // 4}: secret evidence.",
            "question": f"Which of three fits {i}?",
            "options": [{"id": name, "description": f"It is {name} {i}"} for name in ("a", "b", "ц")],
            "label": i % 3,
        }
        for i in range(ROWS)
    ]


@dataclass
class Acceptance:
    """A folder with rows and a reference, and runs over them."""

    folder: Path
    told: list[tuple[str, int]] = field(default_factory=list)

    @property
    def output(self) -> Path:
        return self.folder / "out"

    def write(self, *own: dict[str, object], reference: Sequence[dict[str, object]] | None = None) -> None:
        own = own or tuple(rows())
        if reference is None:
            reference = [score_direct(parse_row(row), engine=Card(), max_tokens=9999) for row in own]
        for name, lines in (("rows", own), ("reference", reference)):
            text = "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines)
            (self.folder / f"{name}.jsonl").write_text(text, encoding="utf-8")

    def task(self, *, max_tokens: int = 4096, is_plotted: bool = False) -> Task:
        return prepare(
            self.folder / "rows.jsonl",
            self.folder / "reference.jsonl",
            self.output,
            limits=BatchLimits(max_tokens=max_tokens, max_decisions=64),
            repeats=3,
            is_plotted=is_plotted,
        )

    def run(self, engine: Any = None, **options: Any) -> Outcome:
        task = self.task(**options)
        thread = ModelThread(engine or Card(), warm_up=warm_up, on_poisoned=lambda: None)
        self.told.clear()
        try:
            return run(
                task,
                thread=thread,
                settings={"model": "/home/me/secret-folder/model.gguf", "max_tokens": task.limits.max_tokens},
                on_progress=lambda what, units: self.told.append((what, units)),
            )
        finally:
            thread.close()

    def report(self) -> Any:
        return json.loads((self.output / "report.json").read_bytes())

    def page(self) -> str:
        return (self.output / "report.md").read_text(encoding="utf-8")
