from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.hub.reports.comparisons import case, completed, metric, outcome

from steelyard.hub.reports import plots
from steelyard.hub.reports.reading import report_of

SHARES = st.floats(0, 1)
TIMES = st.floats(0, 1e6, allow_subnormal=False)


def report(pairs: list[tuple[float, float]], times: list[float] | None = None, **fields: Any) -> Any:
    spent = times or [10.0] * len(pairs)
    made = [
        case(
            number, f"{number}", {"a": 1}, outcome("a", ndcg=pair[0], latency_ms=spent[number]),
            outcome("a", ndcg=pair[1], latency_ms=spent[-1 - number]),
        )
        for number, pair in enumerate(pairs)
    ]  # fmt: skip
    return report_of(completed(critical_regressions=[], **fields), made)


@given(st.lists(st.tuples(SHARES, SHARES), min_size=1, max_size=100))
def test_every_bar_stands_inside_and_goes_up_where_the_candidate_is_better(pairs):
    plot = plots.case_bars(report(pairs))
    assert plot is not None
    assert len(plot.bars) == len(pairs)
    kinds = [bar.kind.partition(" ")[0] for bar in plot.bars]
    assert kinds == sorted(kinds, key=("loss", "tie", "gain").index)
    for bar in plot.bars:
        assert 0 <= bar.left <= bar.left + bar.width <= 100
        assert 0 <= bar.top <= bar.top + bar.height <= 100.01
        assert bar.top < 50 or "gain" not in bar.kind or bar.height == 0


@given(st.floats(-1, 1), st.floats(0, 1), st.booleans())
def test_differences_bounds_and_margin_stand_inside_in_their_order(delta, width, is_higher_better):
    one = metric(
        "m", 0.5, 0.5 + delta, delta=delta, interval=[delta - width, delta + width], higher_is_better=is_higher_better
    )
    plot = plots.deltas(report([(1, 1)], metric_deltas={"ndcg": one}))
    assert plot is not None
    (row,) = plot.rows
    assert 0 <= row.low <= row.middle <= row.high <= 100
    assert row.margin is not None
    assert 0 <= row.margin <= 100
    assert (row.margin < plot.zero) == is_higher_better
    assert 2 <= len(plot.ticks) <= 6
    assert all(0 <= tick.at <= 100 for tick in plot.ticks)


@given(st.lists(TIMES, min_size=1, max_size=30))
def test_every_latency_is_counted_once_whatever_its_size(times):
    plot = plots.spread(report([(1, 1)] * len(times), times))
    assert plot is not None
    for row in plot.rows:
        assert sum(int(bar.told) for bar in row.bars) == len(times)
        assert all(0 <= bar.left <= bar.left + bar.width <= 100 for bar in row.bars)
        assert all(bar.top + bar.height == pytest.approx(40) for bar in row.bars)


def test_skewed_latencies_stand_on_a_logarithmic_axis_with_round_numbers():
    plot = plots.spread(report([(1, 1)] * 3, [2.0, 20.0, 3000.0]))
    assert plot is not None
    assert plot.is_log
    assert [tick.label for tick in plot.ticks] == ["10", "100", "1000"]
    narrow = plots.spread(report([(1, 1)] * 2, [20.0, 900.0]))
    assert narrow is not None
    assert [tick.label for tick in narrow.ticks] == ["20", "50", "100", "200", "500"]


def test_equal_legs_draw_ties_and_a_margin():
    plot = plots.case_bars(report([(1, 1), (0.5, 0.5)]))
    assert plot is not None
    assert plot.counts == "0 worse, 2 equal, 0 better"
    assert plot.most == "1.00"
