"""What the torch engine refuses to start with, and where it finds a hub model: whole starts on tiny real models."""

from __future__ import annotations

import json
import pickle
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import huggingface_hub
import pytest
import torch
import transformers
from safetensors.torch import load_file, save_file
from tests import tiny_models
from tests.hub_cache import put_into_cache

from steelyard.decide.domain.direct import score_direct
from steelyard.decide.engines import torch_loading, torch_reading
from steelyard.decide.settings import load_settings
from steelyard.decide.startup import WARM_UP_ROW, StartRefused, start_engine
from steelyard.hall.settings import BadSetting

if TYPE_CHECKING:
    from collections.abc import Callable

    from steelyard.decide.domain.ports import Engine

HUB_ID = "tiny-org/tiny.model"
COMMIT, OTHER = "0123456789abcdef" * 2 + "01234567", "f" * 40
WEIGHTS = "model.safetensors"


def start(model: object, **changes: str) -> Engine:
    named = {"model": str(model), "device": "cpu", "threads": "1", **changes}
    settings = load_settings({f"SEMIF_{name.upper()}": value for name, value in named.items()}, needs_token=False)
    return start_engine(settings, environ={"HOME": "/nowhere"})


def refusal(model: object, **changes: str) -> str:
    """Give the one sentence that an operator reads."""
    with pytest.raises((BadSetting, StartRefused)) as caught:
        start(model, **changes)
    text = str(caught.value)
    assert text
    assert "\n" not in text
    assert len(text) < 700
    return text


def logits(engine: Engine) -> Any:
    return score_direct(WARM_UP_ROW, engine=engine, max_tokens=4096)["option_logits"]


def about(engine: Engine) -> Any:
    """Give the warm-up row's logits for comparison: where the weights lie in memory moves the last bits."""
    return pytest.approx(logits(engine), rel=1e-4)


@pytest.fixture
def folder(tiny_folder, tmp_path) -> Path:
    """A copy of the tiny Qwen2's folder, to be spoilt."""
    return Path(shutil.copytree(tiny_folder("tiny-qwen2"), tmp_path / "model"))


def change_json(path: Path, **changes: object) -> None:
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


def change_weights(folder: Path, change: Callable[[dict[str, torch.Tensor]], object]) -> None:
    weights = load_file(folder / WEIGHTS)
    change(weights)
    save_file(weights, folder / WEIGHTS, metadata={"format": "pt"})


# Folders.


@pytest.mark.parametrize("name", tiny_models.MODELS)
def test_a_folder_is_loaded_in_fp32_on_the_cpu_and_scores(tiny_folder, name):
    engine = start(tiny_folder(name))
    assert engine.traits.name == "torch"
    assert list(engine.model) == [
        "source", "revision", "dtype", "device", "torch_version", "transformers_version",
    ]  # fmt: skip
    facts = (engine.model["source"], engine.model["revision"], engine.model["dtype"], engine.model["device"])
    assert facts == (str(tiny_folder(name)), None, "float32", "cpu")
    assert engine.evaluated_tokens > 0, "it was not warmed up"
    assert engine.peak_gpu_bytes is None


def test_the_published_checkpoint_of_qwen35_comes_out_as_the_librarys_own_text_model(tiny_folder):
    config = json.loads((tiny_folder("tiny-qwen3.5") / "config.json").read_text())
    assert config["architectures"] == ["Qwen3_5ForConditionalGeneration"]
    engine: Any = start(tiny_folder("tiny-qwen3.5"))
    assert type(engine._model) is transformers.Qwen3_5ForCausalLM
    text = tiny_models.make_model("tiny-qwen3.5").model.language_model
    for (name, loaded), made in zip(engine._model.model.named_parameters(), text.parameters(), strict=True):
        assert torch.equal(loaded, made), name


def test_a_models_weights_may_be_in_several_files(tmp_path, tiny_folder):
    folder = tiny_models.save("tiny-qwen2", tmp_path, max_shard_size="40KB")
    assert len(list(folder.glob("*.safetensors"))) > 2
    assert logits(start(folder)) == about(start(tiny_folder("tiny-qwen2")))


def test_a_missing_file_of_several_is_refused(tmp_path):
    folder = tiny_models.save("tiny-qwen2", tmp_path, max_shard_size="40KB")
    min(folder.glob("*.safetensors")).unlink()
    assert refusal(folder).startswith(f"SEMIF_MODEL: {folder} cannot be loaded: ")


@pytest.mark.parametrize("keep", [0, 7, 8, 100, 5000, -1])
def test_weights_that_are_cut_short_are_refused(folder, keep):
    content = (folder / WEIGHTS).read_bytes()
    (folder / WEIGHTS).write_bytes(content[:keep])
    assert refusal(folder).startswith(f"SEMIF_MODEL: {folder} cannot be loaded: ")


def test_missing_weights_are_refused_by_name_and_never_filled_with_chance(folder):
    change_weights(folder, lambda weights: weights.pop("model.layers.1.mlp.up_proj.weight"))
    assert refusal(folder) == (
        f"SEMIF_MODEL: {folder} cannot be loaded: 1 of the model's weights are missing or misshapen, such as "
        "model.layers.1.mlp.up_proj.weight"
    )


def test_misshapen_weights_are_refused(folder):
    def narrow(weights: dict[str, torch.Tensor]) -> None:
        weights["model.norm.weight"] = weights["model.norm.weight"][:7].clone()

    change_weights(folder, narrow)
    assert refusal(folder).startswith(f"SEMIF_MODEL: {folder} cannot be loaded: ")


def test_weights_of_another_model_are_refused(folder, tiny_folder):
    shutil.copy(tiny_folder("tiny-qwen3.5") / WEIGHTS, folder / WEIGHTS)
    assert refusal(folder).startswith(f"SEMIF_MODEL: {folder} cannot be loaded: ")


@pytest.mark.parametrize("name", ["config.json", "tokenizer.json", "tokenizer_config.json", WEIGHTS])
@pytest.mark.parametrize("content", [b"", b"[]", b"{", b"\xff\xfe"], ids=repr)
def test_a_file_of_something_else_is_refused(folder, name, content):
    (folder / name).write_bytes(content)
    assert refusal(folder).startswith(f"SEMIF_MODEL: {folder} cannot be loaded: ")


@pytest.mark.parametrize("name", ["config.json", "tokenizer.json", "chat_template.jinja", WEIGHTS])
def test_a_missing_file_is_refused(folder, name):
    (folder / name).unlink()
    assert refusal(folder)


def test_an_empty_folder_is_refused(tmp_path):
    assert refusal(tmp_path).startswith(f"SEMIF_MODEL: {tmp_path} cannot be loaded: ")


# What must not run.


def evil(path: Path) -> str:
    """Give Python code that leaves a file behind where it runs."""
    return f"open({str(path)!r}, 'w').close()\nclass Evil: pass\n"


@pytest.mark.parametrize("model_type", ["qwen2", "unheard_of"])
@pytest.mark.parametrize("environ", [{}, {"TRUST_REMOTE_CODE": "1", "HF_HUB_TRUST_REMOTE_CODE": "1"}])
def test_code_that_comes_with_a_model_never_runs(folder, tmp_path, monkeypatch, model_type, environ):
    for name, value in environ.items():
        monkeypatch.setenv(name, value)
    mark = tmp_path / "it ran"
    (folder / "evil.py").write_text(evil(mark))
    names = ("AutoConfig", "AutoModel", "AutoModelForCausalLM")
    change_json(folder / "config.json", model_type=model_type, auto_map=dict.fromkeys(names, "evil.Evil"))
    change_json(folder / "tokenizer_config.json", auto_map={"AutoTokenizer": ["evil.Evil", "evil.Evil"]})
    if model_type == "qwen2":  # The library has code of its own for it.
        assert start(folder)
    else:
        assert refusal(folder).startswith(f"SEMIF_MODEL: {folder} cannot be loaded: ")
    assert not mark.exists()


class Bomb:
    """What a pickle does when it is read is its writer's choice."""

    def __init__(self, mark: Path) -> None:
        self._mark = mark

    def __reduce__(self) -> tuple[Any, tuple[str, str]]:
        return open, (str(self._mark), "w")


@pytest.mark.parametrize("payload", ["pickle", "torch"])
def test_pickled_weights_are_refused_unread(folder, tmp_path, payload):
    mark = tmp_path / "it ran"
    weights = load_file(folder / WEIGHTS)
    (folder / WEIGHTS).unlink()
    if payload == "torch":
        torch.save(weights, folder / "pytorch_model.bin")
    else:
        (folder / "pytorch_model.bin").write_bytes(pickle.dumps(Bomb(mark)))
    assert refusal(folder).startswith(f"SEMIF_MODEL: {folder} cannot be loaded: ")
    assert not mark.exists()


# What cannot decide.


def test_a_model_without_a_chat_template_is_refused(tmp_path):
    tiny_models.make_model("tiny-qwen2").save_pretrained(tmp_path)
    tiny_models.make_tokenizer(chat_template=None).save_pretrained(tmp_path)
    assert refusal(tmp_path) == (
        f"SEMIF_MODEL: {tmp_path} cannot be loaded: the model has no chat template; decisions need an "
        "instruction-tuned chat model"
    )


@pytest.mark.parametrize(
    "template", ["{% for", "{{ raise_exception('System role\nnot supported') }}", "{{ messages | unheard_of }}"]
)
def test_a_chat_template_that_cannot_show_the_warm_up_row_is_refused(folder, template):
    (folder / "chat_template.jinja").write_text(template)
    assert refusal(folder).startswith("the warm-up decision does not score: ")


@pytest.mark.parametrize("shown", ["", "{{ messages[0].content }}", "{{ messages[1].content[:60] }}"])
def test_a_chat_template_that_hides_the_evidence_or_the_question_is_refused(folder, shown):
    (folder / "chat_template.jinja").write_text(f"<|im_start|>{shown}<|im_end|><|im_start|>assistant\n")
    text = "the model's chat template does not show the user's message; serve a model whose does"
    assert refusal(folder) == text


def encoder(folder: Path, rows: int) -> None:
    config: Any = transformers.BertConfig(
        vocab_size=rows, hidden_size=32, num_hidden_layers=1, num_attention_heads=2, intermediate_size=32
    )
    transformers.BertForMaskedLM(config).save_pretrained(folder)


def encoder_decoder(folder: Path, rows: int) -> None:
    config: Any = transformers.T5Config(vocab_size=rows, d_model=32, d_kv=8, d_ff=32, num_layers=1, num_heads=2)
    transformers.T5ForConditionalGeneration(config).save_pretrained(folder)


@pytest.mark.parametrize("save", [encoder, encoder_decoder])
def test_a_model_that_is_not_causal_is_refused(tmp_path, save):
    tokenizer = tiny_models.make_tokenizer()
    tokenizer.save_pretrained(tmp_path)
    save(tmp_path, len(tokenizer))
    text = refusal(tmp_path, max_tokens="100")
    assert text.startswith("SEMIF_MODEL: ") or text.endswith(
        "keeps no state of a prefix; decisions need a causal model"
    )


def test_a_tokenizer_with_more_tokens_than_the_model_is_refused(folder):
    tokenizer = tiny_models.make_tokenizer()
    tokenizer.add_tokens([f"<extra {n}>" for n in range(6)])  # The table has five rows to spare.
    tokenizer.save_pretrained(folder)
    assert refusal(folder) == f"SEMIF_MODEL: the tokenizer of {folder} has tokens beyond the model's"


def test_a_tokenizer_with_few_tokens_but_one_beyond_the_model_is_refused(folder):
    """A rare character would be the first to ask for it, long after the start."""
    content = json.loads((folder / "tokenizer.json").read_text(encoding="utf-8"))
    content["model"]["vocab"]["parcels"] = 5000
    (folder / "tokenizer.json").write_text(json.dumps(content), encoding="utf-8")
    assert refusal(folder) == f"SEMIF_MODEL: the tokenizer of {folder} has tokens beyond the model's"


def test_a_limit_over_the_models_positions_is_refused_with_the_largest(folder):
    assert start(folder, max_tokens="8192")
    assert refusal(folder, max_tokens="8193") == (
        f"SEMIF_MAX_TOKENS is 8193, but {folder} reads 8192 tokens at most; set SEMIF_MAX_TOKENS=8192 or lower"
    )


def test_the_positions_of_a_hybrid_model_are_those_of_its_text_part(tiny_folder):
    assert "reads 8192 tokens at most" in refusal(tiny_folder("tiny-qwen3.5"), max_tokens="8193")


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("tiny-qwen3.5", "SEMIF_MODEL: Qwen3_5ForCausalLM ignores the conv_states and recurrent_states of a prefilled"),
        ("tiny-qwen2", "the torch engine scores the warm-up rows differently alone and after a shared state"),
    ],
)
def test_a_model_whose_prefilled_state_is_ignored_is_refused(tiny_folder, monkeypatch, name, sentence):
    """Some library versions answer all the same, from the suffix alone."""
    read_model = torch_reading.read_model

    def forgetful(folder: Path, **options: Any) -> Any:
        model = read_model(folder, **options)
        forward = model.forward

        def without_state(*, input_ids: Any, use_cache: bool, logits_to_keep: Any, cache: Any = None) -> Any:
            return forward(input_ids=input_ids, use_cache=use_cache, logits_to_keep=logits_to_keep)

        model.forward = without_state
        return model

    monkeypatch.setattr(torch_loading, "read_model", forgetful)
    assert refusal(tiny_folder(name)).startswith(sentence)


def test_a_hybrid_model_whose_recurrent_state_alone_is_ignored_is_refused(tmp_path):
    """Its attention still sees the prefix, so some shared answers are near the direct ones."""
    tokenizer = tiny_models.make_tokenizer()
    tokenizer.save_pretrained(tmp_path)
    config: Any = transformers.JambaConfig(
        vocab_size=len(tokenizer),
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=2,
        attn_layer_period=2,
        attn_layer_offset=1,
        num_experts=2,
        mamba_d_state=8,
        mamba_dt_rank=4,
        use_mamba_kernels=False,
    )
    transformers.JambaForCausalLM(config).save_pretrained(tmp_path)
    assert refusal(tmp_path, max_tokens="4096") == (
        "SEMIF_MODEL: JambaForCausalLM ignores the recurrent_states of a prefilled prefix in this version of "
        "transformers, so shared answers would be wrong; serve another model"
    )


def test_a_card_is_asked_for_where_none_is(tiny_folder):
    if torch.cuda.is_available():
        pytest.skip("this machine has a card")
    text = refusal(tiny_folder("tiny-qwen2"), device="cuda")
    assert text.startswith(f"SEMIF_DEVICE is cuda, but torch {torch.__version__} sees no CUDA device; ")


# The local cache of the hub.


@pytest.fixture
def cache(tmp_path, monkeypatch) -> Path:
    path: Path = tmp_path / "hub"
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_CACHE", str(path))
    return path


@pytest.fixture
def cached(cache, folder) -> Path:
    return put_into_cache(cache, folder, name=HUB_ID, commit=COMMIT)


def test_a_hub_model_comes_from_the_local_cache_at_the_set_revision(cached, folder):
    engine = start(HUB_ID, revision=COMMIT)
    assert (engine.model["source"], engine.model["revision"]) == (HUB_ID, COMMIT)
    assert logits(engine) == about(start(folder))


def test_of_two_revisions_exactly_the_named_one_is_loaded(cache, cached, folder, tmp_path):
    def turn(weights: dict[str, torch.Tensor]) -> None:
        weights["model.embed_tokens.weight"] *= -1

    other = Path(shutil.copytree(folder, tmp_path / "other"))
    change_weights(other, turn)
    put_into_cache(cache, other, name=HUB_ID, commit=OTHER)  # And now `main` names it.
    first, second = logits(start(HUB_ID, revision=COMMIT)), logits(start(HUB_ID, revision=OTHER))
    assert first == about(start(folder))
    assert second == about(start(other))
    assert first != about(start(other))


def test_a_revision_that_is_not_in_the_cache_is_refused_with_the_command_that_fetches_it(cached):
    assert refusal(HUB_ID, revision=OTHER) == (
        f"SEMIF_MODEL: {HUB_ID} is not whole in the local cache at revision {OTHER}; on a machine with network run: "
        f"hf download {HUB_ID} --revision {OTHER}"
    )


def test_a_model_that_is_not_in_the_cache_is_refused_in_the_same_words(cached):
    assert "is not whole in the local cache" in refusal("tiny-org/another", revision=COMMIT)


@pytest.mark.parametrize("revision", ["main", COMMIT[:12], COMMIT.upper(), f"{COMMIT} ", f"{COMMIT}0", "refs/pr/1"])
def test_only_a_full_commit_is_a_revision(cached, revision):
    """A branch moves, so what it names today is not what was checked."""
    assert refusal(HUB_ID, revision=revision).endswith(" is no full commit: it needs 40 characters of 0-9 and a-f")


@pytest.mark.parametrize("name", [WEIGHTS, "config.json", "tokenizer.json", "chat_template.jinja"])
def test_a_snapshot_that_lacks_a_file_is_refused(cached, name):
    (cached / name).unlink()
    assert refusal(HUB_ID, revision=COMMIT)


def test_a_snapshot_whose_link_leads_nowhere_is_refused(cached):
    (cached / WEIGHTS).resolve().unlink()
    assert refusal(HUB_ID, revision=COMMIT).startswith(f"SEMIF_MODEL: {HUB_ID} ")


def test_a_snapshot_that_lacks_a_file_of_the_commits_own_list_is_refused(cached):
    """The hub's library keeps that list, and knows by it a download that was interrupted."""
    files = {file.name: {"size": 1, "blob_id": "0" * 40} for file in cached.iterdir()}
    listing = cached.parents[1] / "trees" / f"{COMMIT}.json"
    listing.parent.mkdir()
    listing.write_text(json.dumps({"format_version": 1, "files": files | {"more.safetensors": files[WEIGHTS]}}))
    assert "is not whole in the local cache" in refusal(HUB_ID, revision=COMMIT)


def test_a_snapshot_that_lacks_a_shard_of_its_index_is_refused(cache, tmp_path):
    sharded = tiny_models.save("tiny-qwen2", tmp_path / "sharded", max_shard_size="40KB")
    snapshot = put_into_cache(cache, sharded, name=HUB_ID, commit=COMMIT)
    assert start(HUB_ID, revision=COMMIT)
    max(snapshot.glob("*.safetensors")).unlink()
    assert refusal(HUB_ID, revision=COMMIT).startswith(f"SEMIF_MODEL: {HUB_ID} cannot be loaded: ")


def test_a_folder_at_the_same_relative_path_as_a_hub_id_with_a_revision_is_not_used(
    tmp_path, monkeypatch, cache, folder
):
    shutil.copytree(folder, tmp_path / HUB_ID)
    monkeypatch.chdir(tmp_path)
    assert "is not whole in the local cache" in refusal(HUB_ID, revision=COMMIT)
    assert start(HUB_ID).model["revision"] is None


def test_a_snapshot_can_be_named_as_a_folder(cached, folder):
    assert logits(start(cached)) == about(start(folder))
    assert refusal(cached, revision=COMMIT).endswith(" lies on this machine, so unset it")


def test_a_model_of_recurrent_layers_alone_is_served(tmp_path):
    """Its cache counts no tokens, which the estimate of a batch's memory must bear."""
    tokenizer = tiny_models.make_tokenizer()
    tokenizer.save_pretrained(tmp_path)
    config: Any = transformers.Mamba2Config(
        vocab_size=len(tokenizer),
        hidden_size=32,
        num_hidden_layers=2,
        num_heads=8,
        head_dim=8,
        n_groups=1,
        state_size=8,
        chunk_size=16,
    )
    transformers.Mamba2ForCausalLM(config).save_pretrained(tmp_path)
    assert logits(start(tmp_path))
