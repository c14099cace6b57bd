from __future__ import annotations

import math
from array import array

import pytest

from steelyard.embed.domain.errors import OutOfMemory
from steelyard.embed.runtimes.fake import FakeRuntime


def embed(*texts: str) -> list:
    runtime = FakeRuntime()
    return runtime.embed(runtime.tokenizer.encode(texts))


def test_equal_texts_have_equal_vectors_whatever_their_neighbours():
    one, _other, again = embed("a b", "c", "a b")
    assert one == again == embed("a b")[0]
    assert one != embed("a c")[0]


def test_vectors_are_normalised_and_as_long_as_the_identity_says():
    (vector,) = embed("text")
    assert len(vector) == FakeRuntime().identity.dimension
    assert math.isclose(math.hypot(*vector), 1, abs_tol=1e-6)


def test_a_cut_text_keeps_its_special_tokens_and_the_limit():
    tokenizer = FakeRuntime(max_tokens=4).tokenizer
    whole = tokenizer.encode(["a b c d"])[0]
    assert tokenizer.cut("a b c d") == array("i", [*whole[:3], whole[-1]])


def test_markers_make_it_fail_as_a_model_can():
    with pytest.raises(OutOfMemory):
        embed("x [fake:out_of_memory]")
    with pytest.raises(RuntimeError, match="asked to fail"):
        embed("fine", "[fake:failure]")
    assert math.isnan(embed("[fake:nan]")[0][0])


def test_two_calls_at_once_are_noticed():
    runtime = FakeRuntime(seconds_per_call=5)
    rows = runtime.tokenizer.encode(["a"])
    runtime._running.acquire()
    with pytest.raises(RuntimeError, match="overlapped"):
        runtime.embed(rows)
    runtime.close()
