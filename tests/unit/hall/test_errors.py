from __future__ import annotations

from steelyard.hall.errors import SteelyardError


class Lost(SteelyardError):
    """The key is lost; ask for another.

    This paragraph is for readers of the code.
    """


class Undocumented(SteelyardError):
    pass


def test_an_errors_message_is_the_one_it_was_given():
    assert str(Lost("the spare is lost too")) == "the spare is lost too"


def test_without_a_message_an_error_says_its_docstrings_first_line():
    assert str(Lost()) == str(Lost("")) == "The key is lost; ask for another."


def test_an_error_without_a_docstring_says_nothing():
    assert str(Undocumented()) == ""


def test_an_error_has_a_stable_code():
    assert Lost.code == "steelyard_error"
