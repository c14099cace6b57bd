from __future__ import annotations

import math
import sys

import matplotlib
import pytest
from tests.unit.decide.makers import by_id, prediction

from steelyard.decide.acceptance import plot
from steelyard.decide.acceptance.checks import CONTROL, NAMES, NOISE, PARITY, SHARED, Check, Verdict
from steelyard.decide.acceptance.comparison import compare
from steelyard.decide.acceptance.errors import AcceptanceRefused
from steelyard.decide.acceptance.outcome import Outcome

PNG = b"\x89PNG\r\n\x1a\n"


def outcome(second: float) -> Outcome:
    first = by_id(*(prediction(0.75, 0.25, id=f"r{i}") for i in range(200)))
    other = by_id(*(prediction(second, 0.25, id=f"r{i}") for i in range(200)))
    return Outcome(
        checks=tuple(Check(name, Verdict.NOT_JUDGED, "") for name in NAMES),
        comparisons={name: compare(first, other) for name in (PARITY, NOISE, CONTROL, SHARED)},
        accuracy={"direct": 0.5, "shared": None},
    )


@pytest.mark.parametrize("second", [0.75, 0.7500001, 0.25, math.nan])
@pytest.mark.parametrize("title", ["a model", "模型 $x^ and $y_ \\frac", ""])
def test_any_outcome_and_any_title_is_a_small_picture(tmp_path, second, title):
    plot.draw(outcome(second), tmp_path / "report.png", title=title)
    content = (tmp_path / "report.png").read_bytes()
    assert content.startswith(PNG)
    assert len(content) < 200_000


def test_an_outcome_without_comparisons_is_a_picture_too(tmp_path):
    checks = (Check(PARITY, Verdict.FAILED, "", {"unscored": {}}), Check(NOISE, Verdict.FAILED, ""))
    plot.draw(Outcome(checks=checks, comparisons={}, accuracy={}), tmp_path / "report.png", title="x")
    assert (tmp_path / "report.png").read_bytes().startswith(PNG)


def test_equal_outcomes_are_equal_pictures(tmp_path):
    for name in ("a.png", "b.png"):
        plot.draw(outcome(0.5), tmp_path / name, title="x")
    assert (tmp_path / "a.png").read_bytes() == (tmp_path / "b.png").read_bytes()


def test_the_operators_own_settings_of_matplotlib_have_no_say(tmp_path):
    plot.draw(outcome(0.5), tmp_path / "a.png", title="x")
    with matplotlib.rc_context({"text.usetex": True, "axes.facecolor": "red"}):  # The first needs LaTeX.
        plot.draw(outcome(0.5), tmp_path / "b.png", title="x")
    assert (tmp_path / "a.png").read_bytes() == (tmp_path / "b.png").read_bytes()


def test_missing_matplotlib_is_refused_with_the_extra_and_the_way_round(monkeypatch):
    plot.require_matplotlib()
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(AcceptanceRefused, match=r"pip install '.\[plots\]', or give --no-plot"):
        plot.require_matplotlib()
