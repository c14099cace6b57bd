from __future__ import annotations

import math
import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from steelyard.decide.domain.errors import OutOfMemory
from steelyard.decide.domain.ports import Message, Suffix
from steelyard.decide.engines.fake import FakeEngine, FakeTokenizer


@given(st.text(max_size=200))
def test_no_character_is_lost_between_tokens(text):
    """Each token is of one piece, and the pieces that decode are where they were."""
    decoded = FakeTokenizer().decode(FakeTokenizer().encode(text))
    assert all(character in text or character == "\ufffd" for character in decoded)
    assert (decoded == "") == (text == "")


@given(st.text(min_size=1, max_size=20))
def test_every_token_fits_into_32_bits(text):
    assert all(0 <= token < 2**32 for token in FakeTokenizer().encode(text))


def test_a_word_whose_checksum_is_near_the_top_is_a_token_too():
    """CRC-32 of this word is so large that the offset of hashed tokens would not fit on top of it."""
    tokens = FakeTokenizer().encode("w7432")
    assert tokens[0] < 2**32
    assert len(FakeEngine().forward(tokens, [65, 66])) == 2


def test_it_renders_as_qwen_does():
    assert FakeTokenizer().render([Message("system", "S"), Message("user", "U")]) == (
        "<|im_start|>system\nS<|im_end|>\n<|im_start|>user\nU<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n"
    )


def test_it_says_that_it_is_no_model():
    engine = FakeEngine()
    assert not engine.traits.is_model
    assert engine.model["note"] == "deterministic fake engine; this is no model and its answers mean nothing"


def test_equal_tokens_give_equal_logits_on_every_machine():
    assert FakeEngine().forward([1, 2, 3], [65, 66]) == [-5.23291015625, -1.678955078125]


@pytest.mark.parametrize(("marker", "error"), [("[fake:out_of_memory]", OutOfMemory), ("[fake:failure]", RuntimeError)])
def test_a_marker_fails_the_call_it_stands_in(marker, error):
    engine = FakeEngine()
    tokens = engine.tokenizer.encode(f"some {marker} text")
    with pytest.raises(error):
        engine.forward(tokens, [65])
    with pytest.raises(error):
        engine.prefill(tokens)
    with engine.prefill([1]) as prefix, pytest.raises(error):
        prefix.score([Suffix(tokens=tokens, slots=[65])])
    assert engine.forward([1], [65])


def test_a_marker_makes_every_logit_nan():
    engine = FakeEngine()
    assert all(math.isnan(logit) for logit in engine.forward(engine.tokenizer.encode("[fake:nan]"), [65, 66]))


def test_two_calls_at_once_are_a_fault():
    engine = FakeEngine()
    inside, leave = threading.Event(), threading.Event()

    def stay(_tokens: object) -> None:
        inside.set()
        assert leave.wait(30)

    engine._count = stay  # type: ignore[method-assign,assignment]  # It holds the first call inside.
    first = threading.Thread(target=engine.prefill, args=([1],))
    first.start()
    assert inside.wait(30)
    with pytest.raises(RuntimeError, match=r"^two calls overlapped in the engine$"):
        engine.forward([1], [65])
    leave.set()
    first.join()
