"""How a model is asked for and what is checked of it, on a stand-in for torch with a card and for transformers."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from tests.unit.decide.engines.fake_torch import FakeCuda, FakeTorch

from steelyard.decide.engines import torch_loading
from steelyard.decide.engines.card_memory import CardMemory
from steelyard.decide.engines.host_memory import HostMemory
from steelyard.decide.engines.torch_loading import TorchSource, load

if TYPE_CHECKING:
    from pathlib import Path


class StandInModel:
    """What `load` asks of a transformers model."""

    def __init__(self, *devices: str, positions: int | None = 8192, rows: int = 500, dtype: str = "bfloat16") -> None:
        self.device = devices[0]
        self.dtype = f"torch.{dtype}"
        self.is_trained = True
        self.keeps_gradients = True
        self._devices = devices
        self._rows = rows
        self.config = SimpleNamespace(get_text_config=lambda: SimpleNamespace(max_position_embeddings=positions))

    def forward(self, *, input_ids: Any, cache: Any, logits_to_keep: Any) -> None:
        raise AssertionError("nothing is scored here")

    def eval(self) -> StandInModel:
        self.is_trained = False
        return self

    def requires_grad_(self, wanted: bool) -> StandInModel:
        self.keeps_gradients = wanted
        return self

    def get_input_embeddings(self) -> SimpleNamespace:
        return SimpleNamespace(num_embeddings=self._rows)

    def parameters(self) -> list[SimpleNamespace]:
        return [SimpleNamespace(device=SimpleNamespace(type=device.partition(":")[0])) for device in self._devices]


class StandInTokenizer(dict):
    """A vocabulary, from texts to tokens."""

    chat_template = "x"

    def get_vocab(self) -> dict[str, int]:
        return self


class Reads:
    """What was read, in order with what the card was asked to do."""

    def __init__(self, torch: FakeTorch) -> None:
        self.calls = torch.cuda.calls
        self.options: dict[str, Any] = {}
        self.model = StandInModel("cuda:0")
        self.tokenizer = StandInTokenizer({"x": 399})

    def read_tokenizer(self, folder: Path) -> StandInTokenizer:
        self.calls.append("tokenizer")
        return self.tokenizer

    def read_model(self, folder: Path, **options: Any) -> StandInModel:
        self.calls.append("weights")
        self.options = options
        return self.model


@pytest.fixture
def torch(monkeypatch) -> FakeTorch:
    fake = FakeTorch()
    monkeypatch.setattr(torch_loading, "torch", fake)
    return fake


@pytest.fixture
def reads(monkeypatch, torch) -> Reads:
    own = Reads(torch)
    monkeypatch.setattr(torch_loading, "read_model", own.read_model)
    monkeypatch.setattr(torch_loading, "read_tokenizer", own.read_tokenizer)
    return own


@pytest.fixture
def source_of(tmp_path):
    def source(**changes: Any) -> TorchSource:
        values = {"name": "m", "path": tmp_path, "device": "cuda", "max_tokens": 99, "converted_dir": tmp_path / "c"}
        return TorchSource(**values | changes)

    return source


def refusal(source: TorchSource) -> str:
    with pytest.raises(ValueError, match=r"^(SEMIF_|torch )") as caught:
        load(source)
    text = str(caught.value)
    assert "\n" not in text
    return text


def test_the_cap_binds_before_anything_is_read(reads, source_of):
    loaded = load(source_of(cap_gib=6.0))
    assert reads.calls == [("cap", 0.25), "tokenizer", "weights"]
    assert isinstance(loaded.memory, CardMemory)


@pytest.mark.parametrize(
    ("cuda", "cap_gib"),
    [(FakeCuda(), 24.5), (FakeCuda(has_card=False), None), (FakeCuda(capability=(5, 0)), None)],
    ids=["cap above the card", "no card", "card too old"],
)
def test_a_card_that_cannot_serve_is_refused_before_anything_is_read(reads, torch, source_of, cuda, cap_gib):
    torch.cuda = cuda
    refusal(source_of(cap_gib=cap_gib))
    assert reads.calls == cuda.calls == []


def test_on_a_card_bf16_safetensors_go_straight_to_it(reads, source_of):
    load(source_of())
    assert reads.options == {"dtype": "bf16", "device_map": {"": "cuda:0"}, "use_safetensors": True}


def test_on_a_cpu_fp32_safetensors_are_read_and_no_card_is_asked_for(reads, torch, source_of):
    torch.cuda = FakeCuda(has_card=False)
    reads.model = StandInModel("cpu", dtype="float32")
    loaded = load(source_of(device="cpu"))
    assert reads.options == {"dtype": "fp32", "device_map": {"": "cpu"}, "use_safetensors": True}
    assert isinstance(loaded.memory, HostMemory)
    assert torch.cuda.calls == []


@pytest.mark.parametrize(
    ("device", "devices", "found"),
    [
        ("cuda", ["cpu"], "cpu"),
        ("cuda", ["cuda:0", "cpu"], "cpu, cuda"),
        ("cuda", ["cuda:0", "meta"], "cuda, meta"),
        ("cpu", ["cuda:0"], "cuda"),
    ],
)
def test_a_model_that_ends_on_another_device_is_refused(reads, source_of, device, devices, found):
    reads.model = StandInModel(*devices)
    assert refusal(source_of(device=device)) == f"SEMIF_DEVICE is {device}, but the model sits on {found}"


def test_the_model_is_set_to_score_and_keeps_no_gradients(reads, source_of):
    model = load(source_of()).model
    assert (model.is_trained, model.keeps_gradients) == (False, False)


@pytest.mark.parametrize(("threads", "asked"), [(None, None), (3, 3)])
def test_torch_gets_the_threads_that_were_set(reads, torch, source_of, threads, asked):
    load(source_of(threads=threads))
    assert torch.threads == asked


def test_the_facts_name_what_was_loaded(reads, source_of):
    facts = load(source_of(name="org/model", revision="f" * 40)).facts
    assert (facts["source"], facts["revision"], facts["dtype"]) == ("org/model", "f" * 40, "bfloat16")
    assert facts["torch_version"] == "2.13.0"


@pytest.mark.parametrize(("positions", "is_refused"), [(98, True), (99, False), (None, False)])
def test_a_limit_over_the_models_positions_is_refused_with_the_largest(reads, source_of, positions, is_refused):
    reads.model = StandInModel("cuda:0", positions=positions)
    if not is_refused:
        load(source_of())
        return
    assert refusal(source_of()) == (
        "SEMIF_MAX_TOKENS is 99, but m reads 98 tokens at most; set SEMIF_MAX_TOKENS=98 or lower"
    )


@pytest.mark.parametrize(("largest", "is_refused"), [(499, False), (500, True)])
def test_a_tokenizer_with_a_token_beyond_the_tables_rows_is_refused(reads, source_of, largest, is_refused):
    reads.tokenizer = StandInTokenizer({"x": largest, "y": 0})
    if not is_refused:
        load(source_of())
        return
    assert refusal(source_of()) == "SEMIF_MODEL: the tokenizer of m has tokens beyond the model's"


def test_a_model_whose_cache_cannot_be_given_is_refused(reads, source_of):
    class Without(StandInModel):
        def forward(self, *, input_ids: Any, logits_to_keep: Any) -> None:  # type: ignore[override]
            raise AssertionError("nothing is scored here")

    reads.model = Without("cuda:0")
    assert refusal(source_of()) == "SEMIF_MODEL: Without cannot score suffixes after a cached state"


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (KeyError("qwen9"), "SEMIF_MODEL: m cannot be loaded: 'qwen9'"),
        (ValueError("first\n  second"), "SEMIF_MODEL: m cannot be loaded: first second"),
        (AssertionError(), "SEMIF_MODEL: m cannot be loaded: AssertionError"),
        (
            RuntimeError("CUDA error: out of memory"),
            (
                "SEMIF_MODEL: there is not enough memory for m; free the card, raise SEMIF_VRAM_CAP_GIB if it is set, "
                "or serve a smaller model (CUDA error: out of memory)"
            ),
        ),
    ],
    ids=repr,
)
@pytest.mark.parametrize("part", ["read_tokenizer", "read_model"])
def test_whatever_a_library_raises_while_it_reads_is_one_sentence(reads, monkeypatch, source_of, part, error, text):
    def fail(folder: Path, **options: Any) -> None:
        raise error

    monkeypatch.setattr(torch_loading, part, fail)
    with pytest.raises(ValueError, match=r"^SEMIF_MODEL: ") as caught:
        load(source_of())
    assert (str(caught.value), caught.value.__cause__, caught.value.__suppress_context__) == (text, None, True)
