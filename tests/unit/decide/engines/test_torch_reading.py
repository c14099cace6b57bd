"""Which weights of a folder a model may leave unread, on a model of a few thousand numbers."""

from __future__ import annotations

import pytest
import torch
import transformers
from safetensors.torch import load_file, save_file

from steelyard.decide.engines.torch_loading import TorchSource, load
from steelyard.decide.engines.torch_reading import read_model


@pytest.fixture
def folder(tmp_path):
    config = transformers.Qwen2Config(
        vocab_size=16, hidden_size=8, intermediate_size=8, num_hidden_layers=1, num_attention_heads=1
    )
    transformers.Qwen2ForCausalLM(config).save_pretrained(tmp_path)
    return tmp_path


def add(folder, name):
    path = folder / "model.safetensors"
    save_file({**load_file(path), name: torch.ones(8)}, path, metadata={"format": "pt"})


@pytest.mark.parametrize(
    "name",
    [
        "model.layers.0.mlp.down_proj.weight_scale",
        "model.layers.0.mlp.down_proj.bias",
        "model.layers.1.mlp.down_proj.weight",
        "model.embed_tokens.scale",
        "lm_head.bias",
    ],
)
def test_a_weight_of_a_part_that_the_model_has_must_have_a_place_in_it(folder, name):
    add(folder, name)
    with pytest.raises(ValueError, match="1 of the file's weights have no place in the model, such as ") as caught:
        read_model(folder)
    assert str(caught.value).endswith(name)


@pytest.mark.parametrize("name", ["model.visual.patch_embed.weight", "mtp.layers.0.weight", "v_head.summary.weight"])
def test_a_part_that_the_model_lacks_is_left_out(folder, name):
    add(folder, name)
    assert type(read_model(folder)).__name__ == "Qwen2ForCausalLM"


def test_a_folder_with_an_adapter_is_refused_and_never_served_without_it(folder):
    (folder / "adapter_config.json").write_text('{"base_model_name_or_path": "some-org/base"}', encoding="utf-8")
    source = TorchSource(name="own", path=folder, device="cpu", max_tokens=16, converted_dir=folder / "converted")
    with pytest.raises(ValueError, match=r"SEMIF_MODEL: own holds an adapter \(adapter_config\.json\); merge it"):
        load(source)
