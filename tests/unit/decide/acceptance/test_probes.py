from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.decide.makers import PieceTokenizer

from steelyard.decide.acceptance.probes import CRITERIA, count_tokens, diary, longest, rows_over, state_for
from steelyard.decide.domain.errors import InvalidRequest
from steelyard.decide.engines.fake import FakeTokenizer


@pytest.mark.parametrize("tokenizer", [PieceTokenizer(), FakeTokenizer(), PieceTokenizer("parcels", " the ", "day ")])
@pytest.mark.parametrize("tokens", [700, 1600, 4096])
def test_the_evidence_fills_a_prompt_to_the_limit_or_a_few_tokens_fewer(tokenizer, tokens):
    rows = rows_over(state_for(tokenizer, prompt_tokens=tokens))
    assert tokens - 3 <= count_tokens(rows[-1], tokenizer=tokenizer) <= tokens
    assert max(count_tokens(row, tokenizer=tokenizer) for row in rows) <= tokens


def test_a_limit_below_the_prompts_own_words_is_refused():
    with pytest.raises(
        InvalidRequest, match="the limit of input tokens leaves no room for evidence; raise --max-tokens"
    ):
        state_for(PieceTokenizer(), prompt_tokens=90)


@given(st.lists(st.integers(-2, 5), min_size=40, max_size=40), st.integers(0, 30))
def test_bisection_ends_where_one_step_more_is_too_long_even_if_some_steps_are_shorter(steps: list[int], limit: int):
    def length(n: int) -> int:
        return max(0, sum(steps[:n])) + max(0, n - len(steps)) * 3

    n = longest(length, limit=limit)
    assert length(n + 1) > limit
    assert n == 0 or length(n) <= limit


def test_there_are_21_binary_criteria_with_ids_of_their_own_over_one_state():
    rows = rows_over("A state.")
    assert len({row.id for row in rows}) == len({row.question for row in rows}) == len(rows) == CRITERIA == 21
    assert {len(row.options) for row in rows} == {2}
    assert {row.state for row in rows} == {"A state."}


@given(st.integers(0, 5000), st.integers(0, 100))
def test_the_diary_has_every_length_and_a_shorter_one_begins_a_longer_one(characters, more):
    assert len(diary(characters)) == characters
    assert diary(characters + more).startswith(diary(characters))
