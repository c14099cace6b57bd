"""One acceptance run: memory first, then four passes over the rows, then speed, then the verdicts and the report.

The passes are files in the output folder, written by the batch scorer, so an interrupted run goes on where it stopped;
the two measurements are made anew in each run.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from steelyard.decide.acceptance import checks, files, plot
from steelyard.decide.acceptance.checks import Check, Verdict
from steelyard.decide.acceptance.errors import AcceptanceRefused
from steelyard.decide.acceptance.measurements import DIRECT_ROWS, measure_memory, measure_speed
from steelyard.decide.acceptance.outcome import Outcome, Passes, accuracies, compare_passes, judge
from steelyard.decide.acceptance.probes import CRITERIA
from steelyard.decide.acceptance.report import Circumstances, markdown_of, report_of, title_of, write_report
from steelyard.decide.batch import BatchLimits, BatchRefused, score_file
from steelyard.decide.domain.errors import DecideError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from steelyard.decide.acceptance.files import Reference, RowFile
    from steelyard.decide.acceptance.predictions import Scored
    from steelyard.decide.model_thread import ModelThread

    Progress = Callable[[str, int], object]

_MEMORY_UNITS = 20  # The long prompt takes about as long as this many rows.


@dataclass(frozen=True)
class Task:
    """What an acceptance run is made of. *repeats* is how often the speed of a shared call is measured."""

    rows: RowFile
    reference: Reference
    folder: Path
    limits: BatchLimits
    repeats: int
    is_plotted: bool

    @property
    def units(self) -> int:
        """How much work there is, as the progress counts it: about one per row."""
        return _MEMORY_UNITS + 4 * len(self.rows.rows) + self.repeats * CRITERIA + DIRECT_ROWS


@dataclass(frozen=True)
class _Run:
    task: Task
    thread: ModelThread
    on_progress: Progress


def prepare(
    rows_path: Path, reference_path: Path, folder: Path, *, limits: BatchLimits, repeats: int, is_plotted: bool
) -> Task:
    """Read the files, make *folder* and check that a plot can be drawn, all before a model loads.

    Raises AcceptanceRefused or BatchRefused in a sentence.
    """
    if is_plotted:
        plot.require_matplotlib()
    rows = files.read_rows(rows_path)
    reference = files.read_reference(reference_path, rows.rows)
    files.open_folder(folder)
    return Task(
        rows=rows, reference=reference, folder=folder, limits=limits, repeats=repeats, is_plotted=is_plotted
    )  # fmt: skip


def run(task: Task, *, thread: ModelThread, settings: Mapping[str, object], on_progress: Progress) -> Outcome:
    """Score, measure, judge and write the report; *settings* go into it as they are, but for folders of files.

    *on_progress* hears what runs now and how many units of work were just done. Raises AcceptanceRefused where the
    folder belongs to other rows or another model, or cannot be written.
    """
    started_at = datetime.now(UTC)
    outcome = _outcome(_Run(task, thread, on_progress))
    circumstances = Circumstances(started_at=started_at, ended_at=datetime.now(UTC), settings=settings)
    report = report_of(outcome, task=task, engine=thread.engine, circumstances=circumstances)
    try:
        if task.is_plotted:
            plot.draw(outcome, task.folder / plot.FILE_NAME, title=title_of(report))
        page = markdown_of(report, outcome, plot=plot.FILE_NAME if task.is_plotted else None)
        write_report(task.folder, report, page)
    except OSError as error:
        raise AcceptanceRefused(
            f"cannot write the report: {error.strerror}; put that right and run the same command again"
        ) from None
    return outcome


def _outcome(run: _Run) -> Outcome:
    task, model = run.task, run.thread.engine.model
    memory = _memory(run)  # First: the peak that it reads counts since the model was loaded.
    passes = _passes(run)
    speed = _speed(run)
    comparisons = compare_passes(passes, task.reference.predictions)
    tolerance = run.thread.engine.traits.tolerance
    judged = judge(passes, comparisons, model=model, reference_model=task.reference.model, tolerance=tolerance)
    return Outcome(
        checks=(*judged, speed, memory),
        comparisons=comparisons,
        accuracy=accuracies(passes, task.reference.predictions, task.rows.labels),
    )


def _memory(run: _Run) -> Check:
    run.on_progress(checks.MEMORY, 0)
    try:
        check = checks.report_memory(measure_memory(run.thread, max_tokens=run.task.limits.max_tokens))
    except DecideError as error:
        check = Check(checks.MEMORY, Verdict.FAILED, f"the long prompt could not be scored: {error}")
    run.on_progress(checks.MEMORY, _MEMORY_UNITS)
    return check


def _passes(run: _Run) -> Passes:
    rows, shuffled_rows = run.task.rows.path, run.task.folder / files.SHUFFLED_ROWS
    first = _pass(run, files.FIRST_OUTPUT, rows=rows)
    # Only now is the folder known to be of these rows.
    files.write_shuffled_rows(shuffled_rows, run.task.rows.rows)
    return Passes(
        first=first,
        second=_pass(run, "direct-2.jsonl", rows=rows),
        shuffled=_pass(run, "shuffled.jsonl", rows=shuffled_rows),
        shared=_pass(run, "shared.jsonl", rows=rows, mode="shared"),
    )


def _pass(run: _Run, name: str, *, rows: Path, mode: str = "direct") -> Scored:
    def advance(count: int) -> None:
        run.on_progress(name, count)

    advance(0)
    output = run.task.folder / name
    try:
        score_file(rows, output, mode=mode, thread=run.thread, limits=run.task.limits, on_rows=advance)
    except BatchRefused as error:
        raise AcceptanceRefused(f"{name}: {error}") from None
    return files.read_pass(output)


def _speed(run: _Run) -> Check:
    def advance(decisions: int) -> None:
        run.on_progress(checks.SPEED, decisions)

    advance(0)
    max_tokens = run.task.limits.max_tokens
    try:
        speed = measure_speed(run.thread, max_tokens=max_tokens, repeats=run.task.repeats, on_call=advance)
    except DecideError as error:
        return Check(checks.SPEED, Verdict.FAILED, f"the criteria could not be scored: {error}")
    return checks.report_speed(speed)
