"""The verdicts of contract section 9, from numbers alone. No NaN passes a check."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from statistics import median
from typing import TYPE_CHECKING

from steelyard.decide.acceptance.comparison import recommended_cap_gib
from steelyard.hall.texts import shorten, without_folder

if TYPE_CHECKING:
    from collections.abc import Mapping

    from steelyard.decide.acceptance.comparison import Comparison
    from steelyard.decide.acceptance.predictions import Scored

NAMES = ("parity", "noise floor", "negative control", "shared against direct", "speed", "memory")
PARITY, NOISE, CONTROL, SHARED, SPEED, MEMORY = NAMES
MOST_CONTROL_AGREEMENT = 0.5
_QUOTED_ROWS = 3
_MIB = 1 << 20


class Verdict(StrEnum):
    """What became of a check. NOT_JUDGED could be judged elsewhere; REPORTED has no rule to be judged by."""

    PASSED = "passed"
    FAILED = "failed"
    NOT_JUDGED = "not judged"
    REPORTED = "reported"


@dataclass(frozen=True)
class Check:
    """One check: its verdict, its key numbers in one line, and all of its numbers by name, as JSON."""

    name: str
    verdict: Verdict
    summary: str
    figures: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True)
class Speed:
    """Seconds of each shared call of *decisions* rows over one state, and of a few of them each scored alone."""

    decisions: int
    shared_seconds: tuple[float, ...]
    direct_seconds: tuple[float, ...]
    prefix_tokens: int
    suffix_tokens: int


@dataclass(frozen=True)
class Memory:
    """What the process held at most after one direct row of *input_tokens*; *gpu_bytes* is None without a count."""

    input_tokens: int
    gpu_bytes: int | None
    resident_bytes: int


def judge_parity(
    comparison: Comparison, *, model: Mapping[str, object], reference_model: Mapping[str, object] | None
) -> Check:
    """Judge the direct scorer (second) against the reference (first): the same top option on every row.

    Only numbers are given where the reference is of another model or saw other prompts.
    """
    reason = _why_not_comparable(comparison, model=model, reference_model=reference_model)
    summary = (
        f"same top option on {comparison.same_top} of {comparison.rows} rows, largest gap "
        f"{comparison.largest_gap:.3g}, {comparison.equal_prompts} equal prompt hashes"
    )
    figures = {**_figures(comparison), "equal_prompts": comparison.equal_prompts, "not_judged_because": reason}
    if reason:
        return Check(PARITY, Verdict.NOT_JUDGED, f"{summary}; {reason}", figures)
    return Check(PARITY, _verdict(not comparison.flips), summary, figures)


def judge_noise(comparison: Comparison) -> Check:
    """Judge two direct passes of one engine: no top option may move."""
    summary = f"{len(comparison.flips)} of {comparison.rows} rows flip, largest gap {comparison.largest_gap:.3g}"
    return Check(NOISE, _verdict(not comparison.flips), summary, _figures(comparison))


def judge_control(comparison: Comparison) -> Check:
    """Judge rows with rotated descriptions against the true ones: most top options must have moved.

    Agreement with itself would be 1, and so would that of a model that looks at letters and not at descriptions.
    """
    is_broken = comparison.agreement <= MOST_CONTROL_AGREEMENT and math.isfinite(comparison.largest_gap)
    summary = f"agreement {comparison.agreement:.3f} with rotated descriptions; {MOST_CONTROL_AGREEMENT} at most passes"
    return Check(CONTROL, _verdict(is_broken), summary, _figures(comparison, with_flips=False))


def judge_shared(comparison: Comparison, *, noise: Comparison, tolerance: float, device: object) -> Check:
    """Judge the shared scorer against the direct one: on CUDA within the noise floor or the engine's tolerance."""
    flips, gap = len(comparison.flips), comparison.largest_gap
    summary = (
        f"{flips} of {comparison.rows} rows flip, largest gap {gap:.3g} "
        f"(noise floor {len(noise.flips)} and {noise.largest_gap:.3g}, tolerance {tolerance:g})"
    )
    figures = {**_figures(comparison), "tolerance": tolerance}
    if not str(device).startswith("cuda"):
        return Check(SHARED, Verdict.NOT_JUDGED, f"{summary}; needs a card", figures)
    is_within = flips <= len(noise.flips) and (gap <= tolerance or gap <= noise.largest_gap)
    return Check(SHARED, _verdict(is_within), summary, figures)


def unscored(name: str, *passes: Scored) -> Check | None:
    """Return the check *name* as failed where a row of *passes* has no answer; None where all have."""
    lacking = [one for one in passes if one.failures]
    if not lacking:
        return None
    texts = [f"{len(one.failures)} rows of {one.name} could not be scored: {_quoted(one.failures)}" for one in lacking]
    figures = {"unscored": {one.name: dict(one.failures) for one in lacking}}
    return Check(name, Verdict.FAILED, "; ".join(texts), figures)


def report_speed(speed: Speed) -> Check:
    """Report the shared call's p50 and spread, and how much faster a decision is in it than alone."""
    p50, direct = median(speed.shared_seconds), median(speed.direct_seconds)
    low, high = min(speed.shared_seconds), max(speed.shared_seconds)
    figures = asdict(speed) | {
        "p50_seconds": p50,
        "min_seconds": low,
        "max_seconds": high,
        "decisions_per_second": speed.decisions / p50,
        "direct_p50_seconds": direct,
        "direct_over_shared_per_decision": direct * speed.decisions / p50,
    }
    summary = (
        f"{speed.decisions} decisions in p50 {p50:.3g} s ({low:.3g} to {high:.3g}), {speed.decisions / p50:.3g} a "
        f"second, {direct * speed.decisions / p50:.3g} times direct; {speed.prefix_tokens} prefix and "
        f"{speed.suffix_tokens} suffix tokens"
    )
    return Check(SPEED, Verdict.REPORTED, summary, figures)


def report_memory(memory: Memory) -> Check:
    """Report the peak, and the cap that follows from it where the engine counts GPU memory."""
    if memory.gpu_bytes is None:
        peak = f"resident peak {memory.resident_bytes / _MIB:.0f} MiB"
        cap, advice = None, "SEMIF_VRAM_CAP_GIB needs a card"
    else:
        peak = f"GPU peak {memory.gpu_bytes / _MIB:.0f} MiB"
        cap = recommended_cap_gib(memory.gpu_bytes)
        advice = f"set SEMIF_VRAM_CAP_GIB={cap:g}; shared batches are halved to fit under it"
    summary = f"{peak} at {memory.input_tokens} input tokens; {advice}"
    return Check(MEMORY, Verdict.REPORTED, summary, asdict(memory) | {"recommended_vram_cap_gib": cap})


def is_same_model(ours: Mapping[str, object], theirs: Mapping[str, object]) -> bool:
    """Tell whether sources are equal, and revisions and file hashes too where both sides state them."""

    def agree(key: str) -> bool:
        return None in (ours.get(key), theirs.get(key)) or ours.get(key) == theirs.get(key)

    return ours.get("source") == theirs.get("source") is not None and agree("revision") and agree("gguf_sha256")


def _why_not_comparable(
    comparison: Comparison, *, model: Mapping[str, object], reference_model: Mapping[str, object] | None
) -> str | None:
    if reference_model is None:
        return "the reference's rows are of several models"
    if not is_same_model(model, reference_model):
        return f"the reference is of another model, {shorten(without_folder(str(reference_model.get('source'))))}"
    if comparison.equal_prompts < comparison.rows:
        return f"{comparison.rows - comparison.equal_prompts} prompt hashes differ, so the texts are not the same"
    return None


def _figures(comparison: Comparison, *, with_flips: bool = True) -> dict[str, object]:
    figures: dict[str, object] = {
        "rows": comparison.rows,
        "same_top": comparison.same_top,
        "agreement": comparison.agreement,
        "largest_gap": comparison.largest_gap,
        "widest_row": comparison.widest_row,
    }
    return figures | ({"flips": [asdict(flip) for flip in comparison.flips]} if with_flips else {})


def _verdict(is_passed: bool) -> Verdict:
    return Verdict.PASSED if is_passed else Verdict.FAILED


def _quoted(failures: Mapping[str, str]) -> str:
    quoted = [f"{shorten(row)} ({code})" for row, code in list(failures.items())[:_QUOTED_ROWS]]
    return ", ".join(quoted) + (" …" if len(failures) > _QUOTED_ROWS else "")
