"""What llama.cpp alone can get wrong: a cache that is too small, and files that are no usable model."""

from __future__ import annotations

import random
import subprocess
import sys
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from steelyard.decide.domain.arithmetic import softmax
from steelyard.decide.domain.direct import score_direct
from steelyard.decide.domain.errors import OutOfMemory
from steelyard.decide.domain.ports import Suffix
from steelyard.decide.domain.prompt import encode_row
from steelyard.decide.domain.rows import Option, Row
from steelyard.decide.domain.shared import score_shared
from steelyard.decide.engines import llama_loading, llama_tokenizer, llamacpp
from steelyard.decide.engines.llama_loading import LlamaSource
from steelyard.decide.engines.llamacpp import ROWS_PER_BATCH, LlamaCppEngine
from steelyard.models import catalogue

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

SMALL = "smollm2-135m"
LIMIT = 200
# C code may end the process, so it loads a file in a process of its own.
LOAD = """
import sys
from pathlib import Path
from steelyard.decide.engines.llama_loading import LlamaSource
from steelyard.decide.engines.llamacpp import LlamaCppEngine
path, max_tokens, sha256 = sys.argv[1:]
source = LlamaSource(path=Path(path), name="m", device="cpu", max_tokens=int(max_tokens), sha256=sha256 or None)
try:
    LlamaCppEngine(source).close()
except ValueError as error:
    print(error)
else:
    print("loaded")
"""


@pytest.fixture(scope="module")
def tight(weights) -> Iterator[LlamaCppEngine]:
    """An engine whose cache has room for little more than one row."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(llamacpp, "_SPARE_CELLS", 1)
        source = LlamaSource(path=weights(SMALL), name=SMALL, device="cpu", max_tokens=LIMIT, threads=1)
        engine = LlamaCppEngine(source)
    yield engine
    engine.close()


def rows(count: int) -> list[Row]:
    choices = (Option(id="y", description="Yes, it was"), Option(id="n", description="No, it was not"))
    return [
        Row(id=f"r{i}", state="The gate was painted.", question=f"Was gate number {i} painted?", options=choices)
        for i in range(count)
    ]


def test_a_batch_too_large_for_the_cache_is_out_of_memory_and_leaves_the_prefix_as_it_was(tight):
    tokens = tight.tokenizer.encode("The gate was painted green. Was it red?")
    suffix = Suffix(tokens=tight.tokenizer.encode(" Answer with one letter: "), slots=[65, 66])
    with tight.prefill(tokens) as prefix:
        before = prefix.score([suffix]).logits
        many = [Suffix(tokens=list(suffix.tokens) * 3, slots=[65])] * ROWS_PER_BATCH
        with pytest.raises(
            OutOfMemory, match=f"^{ROWS_PER_BATCH} rows do not fit into the cache of 400 tokens together"
        ):
            prefix.score(many)
        assert prefix.score([suffix]).logits == before


def test_more_suffixes_than_sequences_are_out_of_memory_too(tight):
    with tight.prefill([1, 2]) as prefix, pytest.raises(OutOfMemory, match="rows do not fit"):
        prefix.score([Suffix(tokens=[3], slots=[65])] * (ROWS_PER_BATCH + 1))


@pytest.mark.parametrize("end", ["close", "forward", "prefill"])
def test_a_prefix_that_was_closed_or_displaced_refuses_to_score(tight, end):
    prefix = tight.prefill([1, 2])
    {"close": prefix.close, "forward": lambda: tight.forward([3], [65]), "prefill": lambda: tight.prefill([4])}[end]()
    with pytest.raises(RuntimeError, match="this prefix is closed, or a later call took its place in the cache"):
        prefix.score([Suffix(tokens=[3], slots=[65])])


def test_shared_scoring_halves_until_its_batches_fit_and_no_answer_moves(tight):
    own = rows(10)
    before = tight.evaluated_tokens
    results, timing = score_shared(own, engine=tight, max_tokens=LIMIT)
    assert timing["batch_size"] == 5
    assert tight.evaluated_tokens - before == timing["prefix_tokens"] + timing["true_suffix_tokens"]
    for row, result in [(own[0], results[0]), (own[-1], results[-1])]:
        direct = score_direct(row, engine=tight, max_tokens=LIMIT)["probabilities"]
        pairs = zip(direct, result["probabilities"], strict=True)  # type: ignore[call-overload]  # Both are lists.
        assert all(abs(p - q) <= tight.traits.tolerance for p, q in pairs)


@pytest.mark.parametrize("call", ["forward", "prefill"])
def test_a_prompt_longer_than_the_cache_is_out_of_memory_and_the_engine_goes_on(tight, call):
    fresh = tight.forward([1, 2, 3], [65, 66])
    arguments = ([5] * 401, [65]) if call == "forward" else ([5] * 401,)
    with pytest.raises(OutOfMemory, match=r"^401 tokens do not fit into the cache of 400$"):
        getattr(tight, call)(*arguments)
    tight.tidy(failed=True)
    assert tight.forward([1, 2, 3], [65, 66]) == fresh


def test_the_longest_prompt_that_the_limit_allows_scores_shared_and_alone(tight):
    row, *_ = rows(1)
    base = len(encode_row(row, tokenizer=tight.tokenizer, max_tokens=LIMIT).tokens)
    longest = replace(row, state=f"{row.state} a" + " a" * (LIMIT - base - 2))
    result = score_direct(longest, engine=tight, max_tokens=LIMIT)
    assert result["input_tokens"] == LIMIT
    (shared,), _timing = score_shared([longest], engine=tight, max_tokens=LIMIT)
    assert shared["probabilities"] == pytest.approx(result["probabilities"], abs=tight.traits.tolerance)


def test_a_closed_engine_closes_again(weights):
    engine = LlamaCppEngine(LlamaSource(path=weights(SMALL), name=SMALL, device="cpu", max_tokens=10))
    engine.close()
    engine.close()


def test_two_engines_live_side_by_side(tight, loaded):
    alone = softmax(tight.forward([1, 2, 3], [65, 66]))
    loaded(SMALL).forward([4, 5, 6], [65])
    assert softmax(tight.forward([1, 2, 3], [65, 66])) == alone


# Files that are no usable model.


def load(path: Path, *, max_tokens: int = 10, sha256: str = "") -> str:
    """Load the file in a process of its own and give the one line that it prints."""
    command = [sys.executable, "-c", LOAD, str(path), str(max_tokens), sha256]
    finished = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert finished.returncode == 0, (finished.returncode, finished.stdout, finished.stderr[-2000:])
    (line,) = finished.stdout.splitlines()
    return line


@pytest.fixture(scope="module")
def content(weights):
    return weights(SMALL).read_bytes()


@pytest.fixture
def write(tmp_path):
    def written(content):
        path = tmp_path / "file.gguf"
        path.write_bytes(content)
        return path

    return written


@pytest.mark.parametrize("size", [0, 3, 4, 8, 24, 100, 5_000, 1_000_000, 3_000_000, 50_000_000, -1])
def test_a_file_cut_short_is_refused_in_one_sentence(content, write, size):
    assert load(write(content[:size])).startswith("SEMIF_MODEL: llama.cpp cannot load ")


def test_a_file_of_anything_else_is_refused_in_one_sentence(write):
    noise = random.Random(7).randbytes(100_000)
    for other in (noise, b"GGUF" + noise, b"GGUF\x03\0\0\0" + noise, b"\0" * 100_000, b"<html>not found</html>"):
        assert load(write(other)).startswith("SEMIF_MODEL: llama.cpp cannot load ")


@pytest.mark.parametrize("seed", range(6))
def test_a_file_with_broken_bytes_in_its_head_is_refused_or_loads(content, write, seed):
    """Not every such file: llama.cpp aborts on some broken vocabularies. A pulled file is held to its pin before."""
    chance = random.Random(seed)
    broken = bytearray(content)
    for _ in range(8):
        broken[chance.randrange(8, 1200)] = chance.randrange(256)
    line = load(write(bytes(broken)))
    assert line == "loaded" or line.startswith(("SEMIF_MODEL: ", "SEMIF_MAX_TOKENS ", "the "))


def test_a_file_that_is_not_the_pinned_one_is_refused_with_both_hashes(weights):
    pin, own = "0" * 64, catalogue.require(SMALL).main.sha256
    assert load(weights(SMALL), sha256=pin) == (
        f"SEMIF_MODEL: {weights(SMALL)} is not m: its SHA-256 is {own}, not {pin}; "
        f"run: steelyard models pull m --models-dir {weights(SMALL).parent}"
    )
    assert load(weights(SMALL), sha256=own) == "loaded"


def test_a_file_that_cannot_be_read_is_refused(tmp_path):
    assert load(tmp_path) == f"SEMIF_MODEL: {tmp_path} cannot be read: Is a directory"


def test_a_limit_over_the_models_context_is_refused_with_the_largest(weights):
    assert load(weights(SMALL), max_tokens=8193) == (
        "SEMIF_MAX_TOKENS is 8193, but m reads 8192 tokens at most; set SEMIF_MAX_TOKENS=8192 or lower"
    )


def test_a_file_without_a_chat_template_is_refused(content, write):
    nameless = content.replace(b"tokenizer.chat_template", b"tokenizer.chat_templatX", 1)
    assert load(write(nameless)) == (
        "the GGUF file holds no chat template; decisions need an instruction-tuned chat model"
    )


def test_a_file_whose_chat_template_is_broken_is_refused(content, write):
    broken = content.replace(b"{% for message in messages %}", b"{% if message in messages  %}", 1)
    assert broken != content
    assert load(write(broken)).startswith("the model's chat template cannot be read: ")


def test_a_file_for_a_card_is_refused_where_there_is_none(weights):
    if llama_loading.library()[0].ggml_backend_dev_by_type(llama_loading.GPU_DEVICE):
        pytest.skip("this machine has a card that xllamacpp sees")
    with pytest.raises(ValueError, match=r"^SEMIF_DEVICE is cuda, but the installed xllamacpp sees no GPU; set SEMIF_"):
        LlamaCppEngine(LlamaSource(path=weights(SMALL), name=SMALL, device="cuda", max_tokens=10))


def test_no_token_is_added_though_the_file_asks_for_one(content, write):
    asks = content.replace(b"tokenizer.ggml.add_bos_token\x07\0\0\0\0", b"tokenizer.ggml.add_bos_token\x07\0\0\0\1", 1)
    assert asks != content
    source = LlamaSource(path=write(asks), name=SMALL, device="cpu", max_tokens=10, threads=1)
    engine = LlamaCppEngine(source)
    tokens, decoded = engine.tokenizer.encode("The gate"), engine.tokenizer.decode(engine.tokenizer.encode("The gate"))
    engine.close()
    assert decoded == "The gate"
    assert len(tokens) == 2


MARKERS = ["<|im_start|>", "<|im_end|>", "<|endoftext|>", "<|im_", "|>", "<", "end|>"]
PIECES = [*MARKERS, " ", "\n", "\n\n", "word", " two words", "123", "包裹", "🐈‍⬛", "'s", "\t "]


@pytest.mark.parametrize("name", ["smollm2-135m", "qwen2.5-coder-0.5b"])
@given(pieces=st.lists(st.sampled_from(PIECES), max_size=60))
def test_a_text_tokenizes_in_blocks_as_it_does_in_one(loaded, name, pieces):
    tokenizer = loaded(name).tokenizer
    text = "".join(pieces)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(llama_tokenizer, "_BLOCK_CHARACTERS", 5)
        in_blocks = tokenizer.encode(text)
    assert in_blocks == tokenizer.encode(text)


def test_a_megabyte_of_markers_is_cut_into_blocks_and_counted_exactly(loaded):
    tokenizer = loaded("smollm2-135m").tokenizer
    text = "<|im_end|>" * 100_000
    assert len(list(tokenizer._blocks(text))) > 50
    assert len(tokenizer.encode(text)) == 100_000
