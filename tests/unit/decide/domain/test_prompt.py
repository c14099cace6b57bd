from __future__ import annotations

import json

import pytest
from tests.unit.decide.makers import PieceTokenizer, options, row

from steelyard.decide.domain.errors import InvalidRequest
from steelyard.decide.domain.prompt import LETTERS, encode_row, evidence_end, messages_of, serialise
from steelyard.hall.digests import sha256_of_text

SIXTEEN = options(*(f"Option {i}" for i in range(16)))


class Swapped(PieceTokenizer):
    """Decodes A as B."""

    def decode(self, tokens):
        return super().decode(tokens).replace("A", "B")


class Folding(PieceTokenizer):
    """One token for every letter, decoded as whichever was encoded last."""

    def encode(self, text):
        self.last = text
        return [7 if "A" <= character <= "P" else ord(character) for character in text]

    def decode(self, tokens):
        return self.last


class Trimming(PieceTokenizer):
    """Its template rewrites what it is given."""

    def render(self, messages):
        return super().render(messages).replace('"', "'")


def refusal(tokenizer, *, max_tokens=10_000, **changes) -> str:
    with pytest.raises(InvalidRequest) as caught:
        encode_row(row(**changes), tokenizer=tokenizer, max_tokens=max_tokens)
    return str(caught.value)


def test_the_prompt_is_a_system_and_a_user_message():
    system, user = messages_of(row(state={"z": 1, "a": "é🐈"}))
    assert (system.role, user.role) == ("system", "user")
    assert system.content == (
        "Apply the supplied criterion to the supplied evidence. Choose exactly one listed option. Respond with only "
        "its uppercase letter, with no explanation or reasoning."
    )
    assert user.content == (
        '{"evidence": {"z": 1, "a": "é🐈"}, "criterion": "Can the lift be used?", "options": '
        '[{"letter": "A", "description": "It can"}, {"letter": "B", "description": "It cannot"}]}'
    )


def test_option_ids_are_never_shown():
    shown = messages_of(row(options=tuple(o.__class__(id="SECRET", description=o.description) for o in SIXTEEN)))
    assert all("SECRET" not in message.content for message in shown)


def test_sixteen_options_are_lettered_a_to_p():
    shown = json.loads(messages_of(row(options=SIXTEEN))[1].content)["options"]
    assert "".join(option["letter"] for option in shown) == LETTERS == "ABCDEFGHIJKLMNOP"
    assert [option["description"] for option in shown] == [option.description for option in SIXTEEN]


def test_values_are_serialised_as_the_caller_wrote_them():
    assert serialise([1, 1.0, True, None, 'a\n"b"/\u2028', 10**30]) == (
        '[1, 1.0, true, null, "a\\n\\"b\\"/\u2028", 1000000000000000000000000000000]'
    )


def test_a_prompt_holds_its_text_its_digest_its_tokens_and_a_slot_per_option():
    tokenizer = PieceTokenizer()
    prompt = encode_row(row(), tokenizer=tokenizer, max_tokens=10_000)
    assert prompt.text == tokenizer.render(messages_of(row()))
    assert prompt.sha256 == sha256_of_text(prompt.text)
    assert prompt.tokens == [ord(character) for character in prompt.text]
    assert prompt.slots == [ord("A"), ord("B")]


def test_a_prompt_may_have_as_many_tokens_as_the_limit_and_no_more():
    count = len(encode_row(row(), tokenizer=PieceTokenizer(), max_tokens=10_000).tokens)
    assert len(encode_row(row(), tokenizer=PieceTokenizer(), max_tokens=count).tokens) == count
    text = f"Row r1: {count} input tokens exceed limit {count - 1}; no truncation allowed"
    assert refusal(PieceTokenizer(), max_tokens=count - 1) == text


def test_a_refusal_quotes_a_long_id_short():
    assert refusal(PieceTokenizer(), id="r" * 1000, max_tokens=1).startswith("Row " + "r" * 63 + "…: ")


def test_a_letter_of_two_tokens_is_no_answer_slot():
    class Doubling(PieceTokenizer):
        def encode(self, text):
            return [token for token in super().encode(text) for _ in range(2)]

    assert refusal(Doubling()) == "Answer slot 'A' is not one exact round-trip token"


def test_a_letter_that_decodes_to_another_is_no_answer_slot():
    assert refusal(Swapped()) == "Answer slot 'A' is not one exact round-trip token"


def test_only_the_letters_that_are_shown_are_checked():
    class WithoutC(PieceTokenizer):
        def decode(self, tokens):
            return super().decode(tokens).replace("C", "?")

    assert encode_row(row(), tokenizer=WithoutC(), max_tokens=10_000).slots == [65, 66]
    three = options("one", "two", "three")
    assert refusal(WithoutC(), options=three) == "Answer slot 'C' is not one exact round-trip token"


def test_two_letters_of_one_token_collide():
    assert refusal(Folding()) == "Answer-slot tokens collide"


def test_a_letter_that_merges_with_the_prompt_changes_its_boundary():
    assert refusal(PieceTokenizer(">A")) == "Answer boundary changes tokenization for slot A"
    assert refusal(PieceTokenizer(">B")) == "Answer boundary changes tokenization for slot B"


@pytest.mark.parametrize("change", [lambda tokens: [*tokens[:-2], 7, tokens[-1]], lambda tokens: [7, *tokens]])
def test_a_letter_that_is_itself_but_changes_what_stands_before_it_changes_the_boundary_too(change):
    class Reaching(PieceTokenizer):
        def encode(self, text):
            tokens = super().encode(text)
            return change(tokens) if text.endswith("<answer>B") else tokens

    assert refusal(Reaching()) == "Answer boundary changes tokenization for slot B"


def test_the_limit_is_checked_before_the_slots_and_these_before_the_boundary():
    merging = PieceTokenizer(">A")
    assert refusal(merging, max_tokens=3).endswith("no truncation allowed")
    assert refusal(Folding(), max_tokens=3).endswith("no truncation allowed")

    class Both(Swapped):
        def __init__(self):
            super().__init__(">A")

    assert refusal(Both()) == "Answer slot 'A' is not one exact round-trip token"


@pytest.mark.parametrize("place", ["state", "question"])
def test_a_lone_surrogate_is_refused_in_words(place):
    assert refusal(PieceTokenizer(), **{place: "a\ud800b"}) == (
        "Row r1: text holds a lone surrogate, which UTF-8 cannot carry"
    )


@pytest.mark.parametrize("state", ["plain", {"a": ["]}", '", "criterion": "']}, ["é", '{"evidence": "x"}'], '\\\n"'])
def test_the_evidence_ends_where_its_serialisation_does(state):
    prompt = encode_row(row(state=state), tokenizer=PieceTokenizer(), max_tokens=10_000)
    end = evidence_end(prompt)
    assert end is not None
    assert prompt.text[:end].endswith('{"evidence": ' + serialise(state))
    assert prompt.text[end:].startswith(', "criterion": "Can the lift')


def test_a_template_that_rewrites_the_message_hides_where_the_evidence_ends():
    prompt = encode_row(row(), tokenizer=Trimming(), max_tokens=10_000)
    assert evidence_end(prompt) is None
