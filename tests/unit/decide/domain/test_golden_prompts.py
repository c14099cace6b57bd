"""The prompt's bytes against golden hashes, and against the hashes that SemIf itself recorded.

`tests/golden/prompts.jsonl` was written with the contract's text and hashlib alone, without this project's code.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from steelyard.decide.domain.prompt import encode_row
from steelyard.decide.domain.rows import parse_row
from steelyard.decide.engines.fake import FakeTokenizer

ROOT = Path(__file__).parents[4]
GOLDEN = ROOT / "tests" / "golden" / "prompts.jsonl"


def read(path: Path) -> list[dict]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").split("\n") if line]


def sha256_of(row: dict) -> str:
    """Give the hash of the prompt as Qwen3.5's template renders it, which the fake tokenizer does too."""
    return encode_row(parse_row(row), tokenizer=FakeTokenizer(), max_tokens=100_000).sha256


@pytest.mark.parametrize("golden", read(GOLDEN), ids=lambda golden: golden["row"]["id"])
def test_a_prompt_has_its_golden_hash(golden):
    assert sha256_of(golden["row"]) == golden["prompt_sha256"]


def test_all_hashes_that_semif_recorded_follow():
    folder = Path(os.environ.get("STEELYARD_SHARED_DATA") or ROOT.parent / "shared" / "data")
    rows, recorded = folder / "authored144.jsonl", folder / "semif-qwen3.5-4b-authored144.jsonl"
    if not (rows.is_file() and recorded.is_file()):
        pytest.skip(f"SemIf's recorded predictions are not in {folder}; set STEELYARD_SHARED_DATA to their folder")
    expected = [(entry["id"], entry["prompt_sha256"]) for entry in read(recorded)]
    assert len(expected) == 144
    assert [(row["id"], sha256_of(row)) for row in read(rows)] == expected
