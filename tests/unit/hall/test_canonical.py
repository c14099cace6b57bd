from __future__ import annotations

import json
import math
from decimal import Decimal
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from steelyard.hall.canonical import canonical_json, require_plain_json, sha256_of_json

VECTORS = json.loads((Path(__file__).parents[3] / "docs" / "digests.json").read_text(encoding="utf-8"))
ALL = [vector for name in ("retrieval_settings", "query", "pins", "suite_revision") for vector in VECTORS[name]]

PLAIN = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53) + 1, 2**53 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(codec="utf-8", exclude_characters="\x00")),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(st.characters(codec="utf-8", exclude_characters="\x00")),
                                                    inner),
    max_leaves=8,
)  # fmt: skip


def nested(levels: int) -> object:
    value: object = 0
    for _ in range(levels - 1):
        value = [value]
    return value


# The rules of docs/howto/comparison-consumer.md, followed by hand, as a program in another language would.
SHORT = {'"': '\\"', "\\": "\\\\", "\b": "\\b", "\f": "\\f", "\n": "\\n", "\r": "\\r", "\t": "\\t"}


def written(value: object) -> str:
    if isinstance(value, dict):
        names = sorted(value, key=lambda name: [ord(character) for character in name])
        return "{" + ",".join(f"{written(name)}:{written(value[name])}" for name in names) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(written, value)) + "]"
    if isinstance(value, str):
        return '"' + "".join(map(escaped, value)) + '"'
    if isinstance(value, float):
        return written_float(value)
    return {None: "null", True: "true", False: "false"}[value] if isinstance(value, bool | None) else f"{value:d}"


def escaped(character: str) -> str:
    if character in SHORT:
        return SHORT[character]
    if " " <= character <= "~":
        return character
    units = character.encode("utf-16-be").hex()
    return "".join("\\u" + units[place : place + 4] for place in range(0, len(units), 4))


def written_float(value: float) -> str:
    _sign, digits, exponent = Decimal(repr(value)).normalize().as_tuple()
    places = "".join(map(str, digits))
    sign, power = "-" if math.copysign(1, value) < 0 else "", len(places) - 1 + int(exponent)
    if value == 0:
        return sign + "0.0"
    if not -4 <= power < 16:
        fraction = f".{places[1:]}" if places[1:] else ""
        return f"{sign}{places[0]}{fraction}e{'-' if power < 0 else '+'}{abs(power):02d}"
    if power < 0:
        return f"{sign}0.{'0' * (-power - 1)}{places}"
    return f"{sign}{places[: power + 1].ljust(power + 1, '0')}.{places[power + 1 :] or '0'}"


@pytest.mark.parametrize("vector", ALL, ids=[vector["name"] for vector in ALL])
def test_the_published_vectors_are_ours(vector):
    require_plain_json(vector["value"])
    assert canonical_json(vector["value"]) == vector["canonical"]
    assert sha256_of_json(vector["value"]) == vector["sha256"]


@pytest.mark.parametrize("vector", ALL, ids=[vector["name"] for vector in ALL])
def test_a_program_that_follows_the_page_s_rules_alone_writes_the_same_text(vector):
    assert written(vector["value"]) == vector["canonical"]


@given(PLAIN)
def test_the_page_s_rules_hold_for_any_plain_json(value):
    assert written(value) == canonical_json(value)


def test_the_vectors_of_a_query_are_over_a_list_of_one():
    assert all(isinstance(text, str) for vector in VECTORS["query"] for text in vector["value"])
    assert {len(vector["value"]) for vector in VECTORS["query"]} == {1}


@given(PLAIN)
def test_plain_json_comes_back_from_its_text_with_the_same_digest(value):
    require_plain_json(value)
    again = json.loads(canonical_json(value))
    assert canonical_json(again) == canonical_json(value)
    assert sha256_of_json(again) == sha256_of_json(value)


def test_the_order_of_names_does_not_count_and_that_of_items_does():
    assert sha256_of_json({"a": 1, "b": 2}) == sha256_of_json({"b": 2, "a": 1})
    assert sha256_of_json([1, 2]) != sha256_of_json([2, 1])


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, {"a": [math.nan]}])
def test_what_is_no_number_has_no_text(value):
    with pytest.raises(ValueError, match="JSON compliant"):
        canonical_json(value)
    with pytest.raises(ValueError, match="holds NaN"):
        require_plain_json(value)


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (2**53, "53 bits"),
        (-(2**53), "53 bits"),
        ([2**60], "53 bits"),
        ("a\x00", "NUL"),
        ({"\x00": 1}, "NUL"),
        ("\ud800", "surrogate"),
        ({"\ud800": 1}, "surrogate"),
        ({1: 2}, "no JSON"),
        ((1, 2), "no JSON"),
        ({"a": b"x"}, "no JSON"),
        (nested(17), "levels"),
    ],
)
def test_what_other_languages_would_read_otherwise_is_refused(value, reason):
    with pytest.raises(ValueError, match=reason):
        require_plain_json(value)


def test_sixteen_levels_pass():
    require_plain_json(nested(16))
