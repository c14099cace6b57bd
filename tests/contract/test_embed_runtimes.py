"""The runtime port, over the fake and both models that can be pulled; the real ones against a bare session too."""

from __future__ import annotations

import dataclasses
import math
import os
import random

import numpy as np
import onnxruntime as ort
import pytest
from tokenizers import Tokenizer

from steelyard.embed.domain.identity import Pooling
from steelyard.embed.loading import IDENTITIES, build_runtime
from steelyard.embed.runtimes import onnx
from steelyard.embed.runtimes.onnx import OnnxRuntime, OnnxSource
from steelyard.embed.settings import load_settings
from steelyard.embed.startup import check_warm_up, gap
from steelyard.models import catalogue, store

MODELS = list(IDENTITIES)
# The graph's vectors of tokens, by model.
TOKEN_VECTORS = {"all-minilm-l6-v2-int8": "last_hidden_state", "paraphrase-minilm-l3-v2": "onnx::Shape_422"}
TEXT = "the invoice was charged twice so please send one payment back, naïve Müller; 東京 42 unaffordable"
WORDS = TEXT.split()


def load(name):
    environ = {"STEELYARD_EMBED_API_TOKEN": "t" * 32, "STEELYARD_EMBED_MODEL": name, "STEELYARD_EMBED_THREADS": "1"}
    return build_runtime(load_settings(environ), environ=os.environ)


@pytest.fixture(scope="module", params=["fake", *MODELS])
def runtime(request, weights):
    if request.param != "fake":
        weights(request.param)
    runtime = load(request.param)
    yield runtime
    runtime.close()


@pytest.fixture(scope="module", params=MODELS)
def model(request, weights):
    """One of the real models."""
    weights(request.param)
    runtime = load(request.param)
    yield runtime
    runtime.close()


def texts(count, *, longest, seed):
    dice = random.Random(seed)
    return [" ".join(dice.choices(WORDS, k=dice.randint(1, longest))) for _ in range(count)]


def embed(runtime, *given):
    return runtime.embed(runtime.tokenizer.encode(given))


def cosine(one, other):
    return sum(x * y for x, y in zip(one, other, strict=True))


def test_a_vector_has_the_identitys_dimension_and_length(runtime):
    for vector in embed(runtime, *texts(5, longest=30, seed=1)):
        assert vector.typecode == "f"
        assert len(vector) == runtime.identity.dimension
        assert math.isclose(math.hypot(*vector), 1, abs_tol=1e-5)


def test_the_same_call_gives_the_same_vectors(runtime):
    given = texts(4, longest=20, seed=2)
    assert embed(runtime, *given) == embed(runtime, *given)


def test_a_vector_moves_with_its_neighbours_by_no_more_than_the_stated_tolerance(runtime):
    """One row in batches of every size, shorter and longer than its neighbours, padded much and not at all."""
    rows = [runtime.tokenizer.cut(text) for text in texts(48, longest=90, seed=3)]
    alone = [runtime.embed([row])[0] for row in rows]
    dice = random.Random(4)
    gaps = []
    for size in (2, 3, 7, 16, 32, 48):
        chosen = dice.sample(range(len(rows)), size)
        batched = runtime.embed([rows[place] for place in chosen])
        gaps += [gap(alone[place], vector) for place, vector in zip(chosen, batched, strict=True)]
    same = [rows[0]] * 9
    gaps += [gap(alone[0], vector) for vector in runtime.embed(same)]
    assert all(moved <= runtime.traits.tolerance for moved in gaps), max(gaps)


def test_the_warm_up_passes(runtime):
    check_warm_up(runtime, max_rows=32)


def test_every_token_is_counted_and_none_is_padding(runtime):
    """Both models' tokenizer.json cuts at 128 tokens and pads to it, if nobody overrules it."""
    long, short = runtime.tokenizer.encode(["payment " * 400, "payment"])
    assert (len(long), len(short)) == (402, 3)


def test_a_cut_text_is_as_long_as_the_model_takes_and_ends_as_a_text_does(runtime):
    limit = runtime.identity.max_tokens
    cut, whole = runtime.tokenizer.cut("payment " * 400), runtime.tokenizer.encode(["payment"])[0]
    assert len(cut) == limit
    assert (cut[0], cut[1], cut[-1]) == tuple(whole)
    assert runtime.tokenizer.cut("payment") == whole


def test_models_are_cut_where_sentence_transformers_cuts_them():
    assert {name: identity.max_tokens for name, identity in IDENTITIES.items()} == {
        "all-minilm-l6-v2-int8": 256,
        "paraphrase-minilm-l3-v2": 128,
    }


@pytest.mark.parametrize(
    ("text", "near", "far"),
    [
        ("A man is eating food.", "A man eats a piece of bread.", "How do I reset my password?"),
        ("How do I reset my password?", "I forgot my login, how can I change it?", "The cat sat on the mat."),
        ("We were charged twice.", "The customer was billed two times.", "The museum opens at nine."),
    ],
)
def test_a_paraphrase_is_nearer_than_another_subject(model, text, near, far):
    vector, near_vector, far_vector = embed(model, text, near, far)
    assert cosine(vector, near_vector) > cosine(vector, far_vector) + 0.3


def bare(name, given):
    """Embed each text alone with ONNX Runtime, Hugging Face's tokenizer and numpy alone, in double precision."""
    directory = store.models_dir(os.environ)
    graph, tokens = (store.path_of(weights, directory) for weights in catalogue.require(name).files)
    tokenizer = Tokenizer.from_file(str(tokens))
    tokenizer.no_padding()
    tokenizer.enable_truncation(IDENTITIES[name].max_tokens)
    session = ort.InferenceSession(graph, providers=["CPUExecutionProvider"])
    names = [entry.name for entry in session.get_inputs()]
    vectors = []
    for text in given:
        ids = np.array([tokenizer.encode(text).ids], dtype=np.int64)
        feeds = {"input_ids": ids, "attention_mask": np.ones_like(ids), "token_type_ids": np.zeros_like(ids)}
        (states,) = session.run([TOKEN_VECTORS[name]], {key: feeds[key] for key in names})
        mean = states[0].astype(np.float64).mean(axis=0)
        vectors.append(mean / np.linalg.norm(mean))
    return vectors


def test_vectors_are_those_of_a_bare_session_and_the_mean_of_its_tokens(model):
    given = [*texts(12, longest=60, seed=5), "payment " * 400]
    rows = [model.tokenizer.cut(text) for text in given]
    for vector, expected in zip(model.embed(rows), bare(model.identity.model, given), strict=True):
        assert gap(vector, expected.tolist()) < 1e-5


def source_of(name, **changes):
    """Return what a real model's runtime is built from, its identity changed."""
    directory = store.models_dir(os.environ)
    graph, tokens = (store.path_of(weights, directory) for weights in catalogue.require(name).files)
    identity = dataclasses.replace(IDENTITIES[name], **changes)
    return OnnxSource(graph.read_bytes(), tokens.read_text(encoding="utf-8"), identity, facts={}, threads=1)


def test_the_first_tokens_vector_is_a_way_to_pool(model):
    name = model.identity.model
    runtime = OnnxRuntime(
        source_of(name, pooling=Pooling.CLS, is_normalised=False, output=TOKEN_VECTORS[name], max_tokens=16)
    )
    rows = runtime.tokenizer.encode(["payment", "twice"])
    vectors = runtime.embed(rows)
    assert len(vectors[0]) == 384
    assert abs(math.hypot(*vectors[0]) - 1) > 0.1
    assert gap(vectors[1], runtime.embed(rows[1:])[0]) < 1e-5
    runtime.close()


def test_a_pooling_that_does_not_fit_the_output_is_refused(model):
    name = model.identity.model
    runtime = OnnxRuntime(source_of(name, pooling=Pooling.NONE, output=TOKEN_VECTORS[name]))
    with pytest.raises(ValueError, match="has 3 axes, which the pooling none cannot read"):
        embed(runtime, "payment")
    runtime.close()


def test_an_output_that_the_graph_has_not_is_refused(model):
    with pytest.raises(ValueError, match="has no output 'logits'; it has '"):
        OnnxRuntime(source_of(model.identity.model, output="logits"))


def test_an_input_that_nobody_can_give_is_refused(model, monkeypatch):
    monkeypatch.setattr(onnx, "_INPUTS", ("input_ids",))
    with pytest.raises(ValueError, match="has an input 'attention_mask'; only input_ids can be given"):
        OnnxRuntime(source_of(model.identity.model))


def test_a_file_that_is_no_tokenizer_is_refused(model):
    with pytest.raises(ValueError, match="is not a tokenizer"):
        OnnxRuntime(dataclasses.replace(source_of(model.identity.model), tokenizer="{}"))
