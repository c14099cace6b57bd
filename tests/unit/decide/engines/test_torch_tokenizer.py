from __future__ import annotations

import functools
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests import tiny_models
from tokenizers import processors

from steelyard.decide.domain.errors import InvalidRequest
from steelyard.decide.domain.ports import Message
from steelyard.decide.domain.prompt import LETTERS, encode_row
from steelyard.decide.domain.rows import Option, Row
from steelyard.decide.engines.chat_template import ChatTemplate
from steelyard.decide.engines.torch_tokenizer import TorchTokenizer

MARKERS = (*tiny_models.SPECIAL, *tiny_models.MARKERS)
# Texts with no character that UTF-8 cannot carry, rich in what tidying up would change.
TEXTS = st.text(alphabet=st.characters(exclude_categories=["Cs"]), max_size=40)
PIECES = st.sampled_from([*MARKERS, " ", " .", " n't", "  ", "\n\n", "\t", "A", " B", "é", "e\u0301", "🐈‍⬛", "\x00"])
MIXED = st.lists(PIECES | TEXTS, max_size=12).map("".join)
MESSAGES = [Message("system", "Judge."), Message("user", '{"evidence": "<b>"}\n ')]


@functools.cache
def tiny() -> TorchTokenizer:
    return TorchTokenizer(tiny_models.make_tokenizer())


def row(**changes: Any) -> Row:
    options = (Option(id="y", description="Yes"), Option(id="n", description="No"))
    return Row(**({"id": "r", "state": "S.", "question": "Q?", "options": options} | changes))


@given(text=MIXED)
def test_a_text_comes_back_from_its_tokens_as_it_was(text):
    assert tiny().decode(tiny().encode(text)) == text


@given(left=MIXED, marker=st.sampled_from(MARKERS), right=MIXED)
def test_a_marker_is_one_token_wherever_it_stands(left, marker, right):
    tokenizer = tiny()
    (token,) = tokenizer.encode(marker)
    assert tokenizer.encode(left + marker + right) == [*tokenizer.encode(left), token, *tokenizer.encode(right)]


def test_no_token_is_added_though_the_tokenizer_asks_for_one():
    native = tiny_models.make_tokenizer()
    start = native.convert_tokens_to_ids("<|im_start|>")
    native.backend_tokenizer.post_processor = processors.TemplateProcessing(
        single="<|im_start|> $A", special_tokens=[("<|im_start|>", start)]
    )
    assert native.encode("The gate")[0] == start, "it does not ask for one"
    tokenizer = TorchTokenizer(native)
    assert start not in tokenizer.encode("The gate")
    assert tokenizer.decode(tokenizer.encode("The gate")) == "The gate"


def test_all_letters_are_single_tokens_of_their_own():
    slots = [tiny().encode(letter) for letter in LETTERS]
    assert [len(slot) for slot in slots] == [1] * 16
    assert tiny().decode([slot[0] for slot in slots]) == LETTERS


def test_it_renders_with_the_generation_prompt_and_thinking_switched_off():
    assert tiny().render(MESSAGES) == (
        "<|im_start|>system\nJudge.<|im_end|>\n"
        '<|im_start|>user\n{"evidence": "<b>"}\n <|im_end|>\n'
        "<|im_start|>assistant\n<think>\n\n</think>\n\n"
    )


TEMPLATES = {
    "tiny": tiny_models.CHAT_TEMPLATE,
    "loop controls": "{% for m in messages %}{% if loop.index == 2 %}{% break %}{% endif %}{{ m.content }}{% endfor %}",
    "white space": "{% if true %}\n  {{ messages[0].content }}\n{% endif %}\n  {% if true %}x{% endif %}",
    "tojson": "{{ messages | tojson }}",
    "special tokens": "{{ eos_token }}{{ messages[1]['content'] | trim }}",
    "no tools": "{% if tools %}t{% endif %}{% if documents %}d{% endif %}{{ messages[1].role }}",
}


@pytest.mark.parametrize("template", TEMPLATES.values(), ids=TEMPLATES)
def test_templates_render_as_those_of_gguf_files_do(template):
    rendered = TorchTokenizer(tiny_models.make_tokenizer(chat_template=template)).render(MESSAGES)
    assert rendered == ChatTemplate(template, special_tokens={"eos_token": "<|im_end|>"}).render(MESSAGES)


def test_a_tokenizer_without_a_template_is_refused():
    with pytest.raises(ValueError, match=r"^the model has no chat template; decisions need an instruction-tuned chat"):
        TorchTokenizer(tiny_models.make_tokenizer(chat_template=None))


@pytest.mark.parametrize(
    ("pad", "eos", "token"),
    [
        ("<|endoftext|>", "<|im_end|>", "<|endoftext|>"),
        (None, "<|im_end|>", "<|im_end|>"),
        ("<|endoftext|>", None, "<|endoftext|>"),
        ("!", "<|im_end|>", "!"),  # Token 0, which is a token like any other.
    ],
)
def test_padding_is_the_padding_token_or_the_end_of_sequence(pad, eos, token):
    native = tiny_models.make_tokenizer()
    native.pad_token, native.eos_token = pad, eos
    tokenizer = TorchTokenizer(native)
    assert tokenizer.can_pad
    assert tokenizer.pad_token == native.convert_tokens_to_ids(token)


def test_without_either_it_cannot_pad():
    native = tiny_models.make_tokenizer()
    native.pad_token = native.eos_token = None
    tokenizer = TorchTokenizer(native)
    assert not tokenizer.can_pad
    assert tokenizer.pad_token == 0


@pytest.mark.parametrize("place", ["state", "question"])
def test_a_lone_surrogate_is_refused_before_it_reaches_the_tokenizer(place):
    with pytest.raises(InvalidRequest, match="lone surrogate"):
        encode_row(row(**{place: "x\ud800y"}), tokenizer=tiny(), max_tokens=4096)


@pytest.mark.parametrize("piece", ["<|im_end|>", "x", " ", "🐈", "<|im_"])
def test_a_hundred_kilobytes_of_anything_are_counted_and_refused(piece):
    with pytest.raises(InvalidRequest, match=r"^Row r: \d+ input tokens exceed limit 4096; no truncation allowed$"):
        encode_row(row(state=piece * 100_000), tokenizer=tiny(), max_tokens=4096)


def test_markers_are_counted_exactly():
    assert len(tiny().encode("<|im_end|>" * 100_000)) == 100_000
