from __future__ import annotations

import pytest

from steelyard.decide.domain.errors import DecideError, InvalidRequest, OutOfMemory, ScoringFailed


@pytest.mark.parametrize(
    ("error", "code"),
    [(InvalidRequest, "invalid_request"), (OutOfMemory, "out_of_memory"), (ScoringFailed, "scoring_failed")],
)
def test_every_failure_to_decide_has_the_contracts_code(error, code):
    assert issubclass(error, DecideError)
    assert error.code == code


def test_only_a_bad_request_is_a_value_error():
    assert issubclass(InvalidRequest, ValueError)
    assert not issubclass(OutOfMemory, ValueError)
    assert not issubclass(ScoringFailed, ValueError)


def test_an_out_of_memory_with_an_empty_message_says_so_all_the_same():
    assert str(OutOfMemory("")) == str(OutOfMemory()) == "CUDA out of memory"
