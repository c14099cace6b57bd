from __future__ import annotations

import pytest

from steelyard.embed.domain.errors import EmbedError, InvalidRequest, OutOfMemory, is_out_of_memory


@pytest.mark.parametrize(
    "error",
    [
        MemoryError(),
        OutOfMemory(),
        RuntimeError("[ONNXRuntimeError] : 6 : RUNTIME_EXCEPTION : std::bad_alloc"),
        RuntimeError("BFCArena: Failed to allocate memory for requested buffer of size 1"),
    ],
)
def test_memory_that_ran_out_is_known_by_type_or_words(error):
    assert is_out_of_memory(error)


def test_another_failure_is_not_taken_for_it():
    assert not is_out_of_memory(RuntimeError("invalid index"))


def test_an_error_knows_the_field_that_it_speaks_of():
    assert InvalidRequest("no", param="input").param == "input"
    assert EmbedError().param is None
