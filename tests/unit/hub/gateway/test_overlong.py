from __future__ import annotations

import json

import pytest

from steelyard.hub.gateway.domain.answers import Answer
from steelyard.hub.gateway.domain.errors import InputTruncated, TruncationUnknown
from steelyard.hub.gateway.domain.overlong import check_truncation, speaks_of_length, was_truncated

LONG, SHORT = "x" * 100, "x"  # With a limit of 64 tokens, of which each has a byte at least.


def told(on_overlong: str, *texts: str, tokens: int | None = None, truncated: tuple[int, ...] | None = None):
    answer = Answer(vectors=[], tokens=tokens, truncated=truncated)
    return was_truncated(answer, texts=texts, on_overlong=on_overlong, max_length=64)


def test_a_runtime_that_refuses_has_cut_nothing_that_it_answers():
    assert told("refuses", LONG, tokens=64) is False


@pytest.mark.parametrize(("truncated", "expected"), [((), False), ((0,), True), (None, None)])
def test_a_runtime_that_reports_is_believed(truncated, expected):
    assert told("reports", LONG, tokens=64, truncated=truncated) is expected


@pytest.mark.parametrize(
    ("texts", "tokens", "expected"),
    [
        ((SHORT,), None, False),
        ((SHORT, SHORT), 10_000, False),  # It counts something else, and texts this short cannot have been cut.
        ((LONG,), None, None),
        ((LONG,), 64, True),
        ((LONG,), 65, True),
        ((LONG,), 63, None),  # It may be cut, and counted without the tokens at its ends.
        ((LONG,), 56, None),
        ((LONG,), 55, False),
        ((LONG, SHORT), 56, False),  # The short one has a token, so the long one has at most 55.
        ((LONG, SHORT), 57, None),
        ((LONG, LONG), 64, None),
        ((LONG, LONG), 127, None),
        ((LONG, LONG), 128, True),
    ],
)
def test_a_runtime_that_cuts_silently_is_bounded_by_tokens_and_bytes(texts, tokens, expected):
    assert told("truncates", *texts, tokens=tokens) is expected


def test_a_text_that_grows_when_it_is_normalised_is_bounded_by_what_it_becomes():
    ligature = "\ufdfa" * 10  # 30 bytes, which NFKD makes 330 of.
    assert told("truncates", ligature) is None


@pytest.mark.parametrize("is_truncated", [False, True, None])
def test_a_deployment_that_allows_cuts_takes_them(is_truncated):
    check_truncation(is_truncated, allows_truncation=True)


def test_a_deployment_that_does_not_refuses_what_is_cut_or_may_be():
    check_truncation(False, allows_truncation=False)
    with pytest.raises(InputTruncated):
        check_truncation(True, allows_truncation=False)
    with pytest.raises(TruncationUnknown):
        check_truncation(None, allows_truncation=False)


@pytest.mark.parametrize(
    "message",
    [
        "Input validation error: `inputs` must have less than 512 tokens. Given: 900",
        "This model's maximum context length is 512 tokens. However, you requested 600 tokens",
        "the input length exceeds the context length",
        "input length exceeds maximum context length",
        "input (901 tokens) is too large to process. increase the physical batch size (current batch size: 256)",
        "the request exceeds the available context size, try increasing it",
        "exceed_context_size_error",
        "input_too_long",
    ],
)
def test_what_servers_say_of_a_text_that_is_too_long_is_known(message):
    assert speaks_of_length(json.dumps({"error": {"message": message}}).encode())


@pytest.mark.parametrize("message", ["", "Unauthorized", "model not found", "too large"])
def test_other_errors_are_not_taken_for_it(message):
    assert not speaks_of_length(message.encode())
