from __future__ import annotations

import json
from pathlib import Path

import pytest

from steelyard.hall.canonical import canonical_json, sha256_of_json

VECTORS = json.loads((Path(__file__).parents[3] / "docs" / "vectors" / "canonical-json.json").read_text("utf-8"))


@pytest.mark.parametrize("vector", VECTORS["vectors"], ids=lambda vector: vector["name"])
def test_the_published_vectors_hold(vector):
    value = json.loads(vector["json"])
    assert canonical_json(value) == vector["canonical"]
    assert sha256_of_json(value) == vector["sha256"]


@pytest.mark.parametrize("number", [float("nan"), float("inf")])
def test_what_json_has_not_is_refused(number):
    with pytest.raises(ValueError, match="JSON compliant"):
        canonical_json([number])


def test_what_is_no_json_is_refused():
    with pytest.raises(TypeError):
        canonical_json([object()])
