"""The published vectors of pins are what the hub pins. Run this file to write them anew, and look at the difference."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.unit.hub.comparisons.protocol_makers import CAPABILITY, INTENT, PARTICIPANTS

from steelyard.hall.canonical import canonical_json, require_plain_json, sha256_of_json
from steelyard.hub.comparisons.domain import intents

if TYPE_CHECKING:
    from steelyard.hub.comparisons.domain.comparison import Intent
    from steelyard.hub.comparisons.domain.participants import Participants, Side

PAGE = Path(__file__).parents[5] / "docs" / "digests.json"


def with_side(side: Side, **parts: dict[str, Any]) -> Side:
    """Return *side* with other fields of its parts."""
    return replace(side, **{part: replace(getattr(side, part), **fields) for part, fields in parts.items()})


def candidate(**parts: dict[str, Any]) -> Participants:
    """Return the participants with other fields of the candidate's parts."""
    return replace(PARTICIPANTS, candidate=with_side(PARTICIPANTS.candidate, **parts))


E5 = {
    "model": "multilingual-e5-small",
    "slug": "e5-small.v1",
    "query_prompt": "query: ",
    "document_prompt": "passage: ",
    "pooling": "mean",
    "is_normalized": False,
    "max_length": 512,
    "dtype": "float32",
}
COMPARED: dict[str, tuple[Intent, Participants]] = {
    "two deployments of one artifact": (INTENT, PARTICIPANTS),
    "prompts with spaces at their ends, and a candidate that may cut": (
        INTENT,
        candidate(identity=E5, deployment={"served_model": "e5", "allows_truncation": True}),
    ),
    "text outside ASCII in index refs, names and prompts": (
        replace(INTENT, current_index_ref="café-résumé-index", candidate_index_ref="索引-候補-🎛"),
        candidate(
            artifact={"source": "Größe/модель", "revision": "版 2"},
            identity={"model": "モデル", "query_prompt": "ค้นหา: ", "document_prompt": "مستند: "},
            deployment={"served_model": "Ω-embed"},
        ),
    ),
    "composed and decomposed index refs are two": (
        replace(INTENT, current_index_ref="caf\u00e9", candidate_index_ref="cafe\u0301"),
        PARTICIPANTS,
    ),
    "prompts with line breaks, quotes, backslashes and control characters": (
        INTENT,
        candidate(
            identity={
                "query_prompt": 'Instruct: find "the" passage\nQuery:\t',
                "document_prompt": "C:\\docs\\ / \b\f\r\u0001\u007f\u2028",
            }
        ),
    ),
    "file names are sorted by code point, not by UTF-16": (
        INTENT,
        candidate(
            artifact={
                "files": {
                    "𝄞.bin": "03" * 32,
                    "ﾮ.bin": "02" * 32,
                    "é.json": "04" * 32,
                    "onnx/model.onnx": "00" * 32,
                    "Tokenizer.json": "01" * 32,
                    "tokenizer.json": "05" * 32,
                }
            }
        ),
    ),
}
PINS = {name: intents.pins_of(intent, found, capability=CAPABILITY) for name, (intent, found) in COMPARED.items()}


def published() -> dict[str, dict[str, Any]]:
    vectors = json.loads(PAGE.read_text(encoding="utf-8"))["pins"]
    return {vector["name"]: vector for vector in vectors}


def test_each_published_vector_is_of_pins_and_none_is_missing():
    assert list(published()) == list(PINS)


@pytest.mark.parametrize("name", PINS)
def test_a_published_vector_is_what_the_hub_pins(name):
    vector = published()[name]
    require_plain_json(vector["value"])
    assert vector["value"] == PINS[name]
    assert vector["canonical"] == canonical_json(PINS[name])
    assert vector["sha256"] == sha256_of_json(PINS[name])


if __name__ == "__main__":
    page = json.loads(PAGE.read_text(encoding="utf-8"))
    page["pins"] = [
        {"name": name, "value": pins, "canonical": canonical_json(pins), "sha256": sha256_of_json(pins)}
        for name, pins in PINS.items()
    ]
    PAGE.write_text(json.dumps(page, indent=2) + "\n", encoding="utf-8")
