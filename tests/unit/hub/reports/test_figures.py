from __future__ import annotations

import pytest

from steelyard.hall.texts import plural
from steelyard.hub.reports.figures import figure, interval, milliseconds, p_value, signed


@pytest.mark.parametrize(
    ("value", "text"), [(None, "–"), (0.12345, "0.123"), (-0.0004, "0.000"), (-0.5, "−0.500"), (1, "1.000")]
)
def test_a_value_has_three_digits(value, text):
    assert figure(value) == text


@pytest.mark.parametrize(("value", "text"), [(0.25, "+0.250"), (-0.25, "−0.250"), (0.0001, "0.000"), (0, "0.000")])
def test_a_difference_has_a_sign_unless_it_is_nothing(value, text):
    assert signed(value) == text


def test_bounds_are_differences():
    assert interval((-0.02, 0.04)) == "[−0.020, +0.040]"


@pytest.mark.parametrize(("value", "text"), [(0.0001, "<0.001"), (0.001, "0.001"), (1.0, "1.000"), (None, "–")])
def test_a_tiny_probability_is_bounded(value, text):
    assert p_value(value) == text


@pytest.mark.parametrize(("value", "text"), [(4.24, "4.2"), (130.4, "130"), (0, "0.0"), (None, "–")])
def test_a_long_time_has_no_tenths(value, text):
    assert milliseconds(value) == text


def test_one_is_one():
    assert (plural(1, "case"), plural(2, "case")) == ("1 case", "2 cases")
