"""Tiny random chat models in transformers' format: made in a second, seeded, and loaded as large ones are.

They mean nothing, but their weights are wide enough that every token before the answer moves it.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

import torch
import transformers
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers, trainers

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

SPECIAL = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")
MARKERS = ("<think>", "</think>")
POSITIONS = 8192
# Qwen's split: words take the space before them, and a run of line ends is one piece, so no letter merges with it.
_SPLIT = Regex(
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
CHAT_TEMPLATE = (
    "{% for message in messages %}<|im_start|>{{ message.role }}\n{{ message.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
    "{% if add_generation_prompt and enable_thinking is defined and not enable_thinking %}"
    "<think>\n\n</think>\n\n{% endif %}"
)
# What the merges are learnt from: the words that the tests' rows are made of.
_CORPUS = """
Apply the supplied criterion to the supplied evidence. Choose exactly one listed option. Respond with only its
uppercase letter, with no explanation or reasoning. {"evidence": "", "criterion": "", "options": [{"letter": "A",
"description": ""}, {"letter": "B", "description": ""}]}
 parcel depot Ghent wet signed Monday late corner lorry scale crate the was is it and of one left reached found
"""


@functools.cache
def _trained() -> str:
    """Return a byte-level BPE as JSON: all 256 bytes, the letters single tokens, and a few hundred merges."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Split(_SPLIT, "isolated"), pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)]
    )
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=700, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False
    )
    tokenizer.train_from_iterator([_CORPUS], trainer)
    tokenizer.add_special_tokens([AddedToken(text, special=True, normalized=False) for text in SPECIAL])
    tokenizer.add_tokens([AddedToken(text, special=False, normalized=False) for text in MARKERS])
    return tokenizer.to_str()


def make_tokenizer(*, chat_template: str | None = CHAT_TEMPLATE) -> Any:
    """Return a tokenizer with a Qwen-like chat template; its end of sequence and its padding are Qwen's."""
    fast: Any = transformers.PreTrainedTokenizerFast
    return fast(
        tokenizer_object=Tokenizer.from_str(_trained()),
        eos_token="<|im_end|>",
        pad_token="<|endoftext|>",
        chat_template=chat_template,
        clean_up_tokenization_spaces=False,
    )


def _vocabulary() -> int:
    return len(make_tokenizer()) + 5  # Rows of the table that no token names, as large models have.


def _qwen2() -> Any:
    config: Any = transformers.Qwen2Config(
        vocab_size=_vocabulary(),
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=POSITIONS,
        initializer_range=0.3,
        tie_word_embeddings=True,
    )
    return transformers.Qwen2ForCausalLM(config)


def _qwen35() -> Any:
    """The checkpoint as it is published: a model of text and images, whose text part is hybrid."""
    text = {
        "vocab_size": _vocabulary(),
        "hidden_size": 32,
        "intermediate_size": 64,
        "num_hidden_layers": 4,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "head_dim": 16,
        "linear_key_head_dim": 8,
        "linear_value_head_dim": 8,
        "linear_num_key_heads": 2,
        "linear_num_value_heads": 4,
        "max_position_embeddings": POSITIONS,
        "initializer_range": 0.3,
    }
    vision = {
        "depth": 1,
        "hidden_size": 32,
        "intermediate_size": 32,
        "num_heads": 2,
        "out_hidden_size": 32,
        "num_position_embeddings": 16,
    }
    config: Any = transformers.Qwen3_5Config(text_config=text, vision_config=vision)
    return transformers.Qwen3_5ForConditionalGeneration(config)


def _mistral() -> Any:
    """A model whose layers see a short window only: its cache forgets what is behind."""
    config: Any = transformers.MistralConfig(
        vocab_size=_vocabulary(),
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=POSITIONS,
        initializer_range=0.3,
        sliding_window=48,
    )
    return transformers.MistralForCausalLM(config)


MODELS: dict[str, Callable[[], Any]] = {"tiny-qwen2": _qwen2, "tiny-qwen3.5": _qwen35, "tiny-mistral": _mistral}


def make_model(name: str) -> Any:
    """Return the model *name* with random weights, the same each time."""
    with torch.random.fork_rng():
        torch.manual_seed(7)
        return MODELS[name]().eval()


def save(name: str, folder: Path, **options: Any) -> Path:
    """Write the model *name* and its tokenizer into *folder*, and return it."""
    make_model(name).save_pretrained(folder, **options)
    make_tokenizer().save_pretrained(folder)
    return folder
