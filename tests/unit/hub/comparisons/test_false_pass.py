"""How often the rule lets a candidate through, by simulation with fixed seeds: the promises, and what falls short."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import numpy as np
import pytest
from docs.eligibility_curve import COUNTS, MARGIN, PAGE, SHAPES, lower_bounds, normal, pass_rate
from tests.unit.hub.comparisons.makers import SEED

from steelyard.hub.comparisons.domain.eligibility import Findings, Rule, judge
from steelyard.hub.comparisons.domain.statistics import Floats, Paired, compare

if TYPE_CHECKING:
    from docs.eligibility_curve import Shape

KEPT = (
    "normal",
    "half of the cases tie, the others are normal",
    "one case in five is ranked anew; the worse candidate ranks lower",
    "a long tail of gains",
)
# A bootstrap knows no loss that it has not seen: where most cases tie and a few lose much, 30 cases may show too few.
SHORT = {
    "one case in five is ranked anew; the worse candidate finds nothing in some": 0.12,
    "a long tail of losses": 0.12,
    "four of five cases tie, the others are normal": 0.16,
    "one case in twenty falls from 1 to 0, the others tie": 0.24,
}


def compared(differences: Floats) -> list[Paired]:
    """Return what the product finds of each row, each as if it were a metric of its own."""
    found: list[Paired] = []
    for start in range(0, len(differences), 200):
        columns = differences[start : start + 200].T
        found += compare(np.zeros_like(columns).tolist(), columns.tolist(), seed=SEED)
    return found


def is_eligible(gain: Paired, *, case_count: int) -> bool:
    findings = Findings(
        case_count=case_count,
        incomparable=(),
        critical_regressions=(),
        candidate_error_count=0,
        metric="nDCG@10",
        gain=gain,
    )
    return judge(findings, rule=Rule()).eligibility == "eligible"


def eligible_share(shape: Shape, *, mean: float, count: int, runs: int) -> float:
    differences = shape(np.random.default_rng([7, count]), (runs, count), mean)
    return float(np.mean([is_eligible(gain, case_count=count) for gain in compared(differences)]))


@pytest.mark.parametrize("name", KEPT)
def test_few_candidates_that_are_worse_by_the_margin_pass(name):
    assert eligible_share(SHAPES[name], mean=-MARGIN, count=30, runs=400) <= 0.1


def test_most_equal_candidates_pass_at_a_hundred_cases():
    assert eligible_share(normal(0.15), mean=0.0, count=100, runs=200) >= 0.9


@pytest.mark.slow
@pytest.mark.parametrize("spread", [0.1, 0.2, 0.3])
def test_at_most_one_in_ten_passes_at_any_spread(spread):
    assert eligible_share(normal(spread), mean=-MARGIN, count=30, runs=2000) <= 0.1


@pytest.mark.slow
@pytest.mark.parametrize("name", KEPT)
@pytest.mark.parametrize("count", COUNTS)
def test_at_most_one_in_ten_that_are_worse_by_the_margin_passes(name, count):
    assert eligible_share(SHAPES[name], mean=-MARGIN, count=count, runs=2000) <= 0.1


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in SHAPES if name != "a long tail of losses"])
def test_an_equal_candidate_passes_in_eight_of_ten_runs_at_a_hundred_cases(name):
    assert eligible_share(SHAPES[name], mean=0.0, count=100, runs=4000) >= 0.8


@pytest.mark.slow
@pytest.mark.parametrize(("name", "most"), SHORT.items())
def test_what_falls_short_at_thirty_cases_is_as_documented_and_holds_at_a_hundred(name, most):
    assert 0.05 < eligible_share(SHAPES[name], mean=-MARGIN, count=30, runs=2000) <= most
    assert eligible_share(SHAPES[name], mean=-MARGIN, count=100, runs=2000) <= 0.1


@pytest.mark.parametrize("name", SHAPES)
def test_a_shape_has_the_mean_and_the_spread_that_it_says(name):
    source = np.random.default_rng(3)
    worse, equal = (SHAPES[name](source, (4000, 100), mean) for mean in (-MARGIN, 0.0))
    assert worse.mean() == pytest.approx(-MARGIN, abs=0.002)
    assert equal.mean() == pytest.approx(0.0, abs=0.002)
    assert equal.std() == pytest.approx(0.2, abs=0.015) or (name in SHORT and not equal.any())


def test_the_curve_s_bounds_are_the_product_s():
    differences = SHAPES[KEPT[2]](np.random.default_rng(5), (5, 30), 0.0)
    resampled = compare(np.zeros((30, 5)).tolist(), differences.T.tolist(), seed="c0ffee" * 10 + "c0ff")
    assert lower_bounds(differences) == pytest.approx([one.one_sided[0] for one in resampled], abs=1e-11)


def test_the_page_has_a_row_for_each_shape_and_the_figures_of_one():
    rows = PAGE.read_text(encoding="utf-8").splitlines()
    assert [name for name in SHAPES if not any(row.startswith(f"| {name} | ") for row in rows)] == []
    figures = [f"{pass_rate(normal(0.1), mean=mean, count=30):.0%}" for mean in (0.0, -MARGIN)]
    assert any(row.startswith(f"| 0.1 | {figures[0]} / {figures[1]} | ") for row in rows)


@pytest.mark.slow
def test_the_page_has_the_curve_as_it_is():
    script = PAGE.parent / "eligibility_curve.py"
    subprocess.run([sys.executable, str(script), "--check"], check=True)
