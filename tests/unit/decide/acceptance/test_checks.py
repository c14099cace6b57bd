from __future__ import annotations

import json
import math

import pytest
from tests.unit.decide.makers import by_id, prediction

from steelyard.decide.acceptance.checks import (
    MEMORY,
    NOISE,
    PARITY,
    SPEED,
    Memory,
    Speed,
    Verdict,
    is_same_model,
    judge_control,
    judge_noise,
    judge_parity,
    judge_shared,
    report_memory,
    report_speed,
    unscored,
)
from steelyard.decide.acceptance.comparison import compare
from steelyard.decide.acceptance.predictions import Scored

MODEL = {"source": "m", "revision": "1"}
PASSED, FAILED, NOT_JUDGED, REPORTED = Verdict.PASSED, Verdict.FAILED, Verdict.NOT_JUDGED, Verdict.REPORTED


def comparison_of(*firsts_and_seconds: tuple[float, float]):
    """Compare binary rows by the probability of their first option in either pass."""
    sides = [
        by_id(*(prediction(pair[side], 1 - pair[side], id=f"r{i}") for i, pair in enumerate(firsts_and_seconds)))
        for side in (0, 1)
    ]
    return compare(*sides)


SAME, MOVED, FLIPPED = comparison_of((0.75, 0.75)), comparison_of((0.75, 0.625)), comparison_of((0.75, 0.25))
SPOILT = comparison_of((0.75, math.nan), (0.75, 0.75))


def test_parity_passes_where_no_top_option_differs_however_wide_the_gap():
    check = judge_parity(MOVED, model=MODEL, reference_model=MODEL)
    assert (check.name, check.verdict) == (PARITY, PASSED)
    assert check.summary == "same top option on 1 of 1 rows, largest gap 0.125, 1 equal prompt hashes"
    assert check.figures["not_judged_because"] is None


def test_parity_fails_with_the_rows_that_flip_and_the_references_lead():
    check = judge_parity(FLIPPED, model=MODEL, reference_model=MODEL)
    assert check.verdict is FAILED
    assert check.figures["flips"] == [{"id": "r0", "before": "o0", "after": "o1", "lead": 5.0}]


def test_parity_with_nan_fails():
    assert judge_parity(SPOILT, model=MODEL, reference_model=MODEL).verdict is FAILED


@pytest.mark.parametrize("comparison", [SAME, FLIPPED])
@pytest.mark.parametrize(
    ("reference_model", "reason"),
    [
        ({"source": "other", "revision": "1"}, "the reference is of another model, other"),
        ({"source": "/home/me/other.gguf", "revision": "1"}, "the reference is of another model, other.gguf"),
        ({"source": "m", "revision": "2"}, "the reference is of another model, m"),
        (None, "the reference's rows are of several models"),
    ],
)
def test_parity_with_another_model_is_not_judged_and_says_why(comparison, reference_model, reason):
    check = judge_parity(comparison, model=MODEL, reference_model=reference_model)
    assert check.verdict is NOT_JUDGED
    assert check.summary.endswith("; " + reason)
    assert check.figures["not_judged_because"] == reason


def test_parity_over_other_prompts_is_not_judged():
    comparison = compare(by_id(prediction(0.5, 0.5)), by_id(prediction(0.5, 0.5, prompt_sha256="other")))
    check = judge_parity(comparison, model=MODEL, reference_model=MODEL)
    assert check.verdict is NOT_JUDGED
    assert "1 prompt hashes differ" in check.summary


@pytest.mark.parametrize(
    ("theirs", "is_same"),
    [
        ({"source": "m", "revision": "1"}, True),
        ({"source": "m", "revision": None}, True),
        ({"source": "m"}, True),
        ({"source": "m", "revision": "2"}, False),
        ({"source": "n", "revision": "1"}, False),
        ({"revision": "1"}, False),
        ({"source": "m", "revision": "1", "gguf_sha256": "ab"}, True),
    ],
)
def test_a_model_is_the_same_by_source_and_by_the_revision_where_both_state_one(theirs, is_same):
    assert is_same_model(MODEL, theirs) is is_same


def test_two_files_of_one_name_are_two_models():
    assert not is_same_model({"source": "m", "gguf_sha256": "ab"}, {"source": "m", "gguf_sha256": "cd"})


def test_models_without_a_source_are_not_known_to_be_the_same():
    assert not is_same_model({}, {})


def test_the_noise_floor_may_have_gaps_but_no_flips():
    assert judge_noise(MOVED).verdict is PASSED
    assert judge_noise(FLIPPED).verdict is FAILED
    assert judge_noise(SPOILT).verdict is FAILED
    assert judge_noise(MOVED).summary == "0 of 1 rows flip, largest gap 0.125"


@pytest.mark.parametrize(
    ("pairs", "verdict"),
    [
        ([(0.75, 0.25)], PASSED),
        ([(0.75, 0.25), (0.75, 0.75)], PASSED),
        ([(0.75, 0.25), (0.75, 0.75), (0.75, 0.75)], FAILED),
        ([(0.75, 0.75)], FAILED),
        ([(0.75, math.nan), (0.75, 0.25)], FAILED),
    ],
)
def test_the_control_passes_where_at_most_half_of_the_rows_agree_and_all_numbers_are_finite(pairs, verdict):
    assert judge_control(comparison_of(*pairs)).verdict is verdict


def shared(comparison, *, noise=SAME, tolerance=0.0, device="cuda:0"):
    return judge_shared(comparison, noise=noise, tolerance=tolerance, device=device)


def test_on_cuda_shared_scoring_passes_within_the_noise_floor_or_the_tolerance():
    assert shared(SAME).verdict is PASSED
    assert shared(MOVED).verdict is FAILED
    assert shared(MOVED, tolerance=0.125).verdict is PASSED
    assert shared(MOVED, noise=MOVED).verdict is PASSED
    assert shared(SAME, noise=SPOILT).verdict is PASSED


def test_on_cuda_shared_scoring_may_flip_no_more_rows_than_noise_does():
    assert shared(FLIPPED, tolerance=1.0).verdict is FAILED
    assert shared(FLIPPED, noise=FLIPPED).verdict is PASSED


def test_on_cuda_shared_scoring_with_nan_fails_whatever_is_allowed():
    assert shared(SPOILT, tolerance=1.0, noise=SPOILT).verdict is FAILED


@pytest.mark.parametrize("device", ["cpu", None])
@pytest.mark.parametrize("comparison", [SAME, FLIPPED, SPOILT])
def test_without_a_card_shared_scoring_is_reported_and_not_judged(comparison, device):
    check = shared(comparison, device=device)
    assert check.verdict is NOT_JUDGED
    assert check.summary.endswith("; needs a card")


def test_rows_without_an_answer_fail_the_check_that_needs_them_and_are_named():
    fine = Scored("direct-1.jsonl", by_id(prediction(0.5, 0.5)), {})
    lacking = Scored("shared.jsonl", {}, {"r1": "out_of_memory"})
    assert unscored(NOISE, fine, fine) is None
    check = unscored(NOISE, fine, lacking)
    assert check is not None
    assert (check.name, check.verdict) == (NOISE, FAILED)
    assert check.summary == "1 rows of shared.jsonl could not be scored: r1 (out_of_memory)"
    assert check.figures == {"unscored": {"shared.jsonl": {"r1": "out_of_memory"}}}


def test_a_few_of_many_unscored_rows_are_named():
    lacking = Scored("shared.jsonl", {}, {f"r{i}": "x" for i in range(9)})
    check = unscored(NOISE, lacking)
    assert check is not None
    assert check.summary == "9 rows of shared.jsonl could not be scored: r0 (x), r1 (x), r2 (x) …"


def test_speed_has_a_p50_a_spread_and_a_ratio_per_decision():
    check = report_speed(
        Speed(decisions=20, shared_seconds=(3.0, 1.0, 2.0), direct_seconds=(1.0,), prefix_tokens=9, suffix_tokens=8)
    )
    assert (check.name, check.verdict) == (SPEED, REPORTED)
    names = ("p50_seconds", "min_seconds", "max_seconds", "decisions_per_second", "direct_over_shared_per_decision")
    assert [check.figures[name] for name in names] == [2.0, 1.0, 3.0, 10.0, 10.0]
    assert check.summary.startswith("20 decisions in p50 2 s (1 to 3), 10 a second, 10 times direct")


def test_a_gpu_peak_gives_the_cap():
    check = report_memory(Memory(input_tokens=4096, gpu_bytes=8 * 2**30, resident_bytes=1))
    assert (check.name, check.verdict) == (MEMORY, REPORTED)
    assert "GPU peak 8192 MiB at 4096 input tokens; set SEMIF_VRAM_CAP_GIB=8.5" in check.summary
    assert "shared batches are halved to fit under it" in check.summary
    assert check.figures["recommended_vram_cap_gib"] == 8.5


def test_without_a_count_of_gpu_memory_there_is_a_resident_peak_and_no_cap():
    check = report_memory(Memory(input_tokens=4000, gpu_bytes=None, resident_bytes=3 * 2**20))
    assert check.summary == "resident peak 3 MiB at 4000 input tokens; SEMIF_VRAM_CAP_GIB needs a card"
    assert check.figures["recommended_vram_cap_gib"] is None


def test_figures_are_json():
    for check in (judge_noise(FLIPPED), shared(MOVED), judge_parity(SAME, model=MODEL, reference_model=None)):
        json.dumps(check.figures)
