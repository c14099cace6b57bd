"""Tiny random chat models in transformers' format: made in a second, seeded, and loaded as large ones are.

They mean nothing, but their weights are wide enough that the evidence moves the answer well beyond rounding.
"""

from __future__ import annotations

import functools
import json
from typing import TYPE_CHECKING, Any

import gguf
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


def _attention_sizes() -> dict[str, Any]:
    """Return the sizes that both models of attention layers alone have."""
    return {
        "vocab_size": _vocabulary(),
        "hidden_size": 32,
        "intermediate_size": 64,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "max_position_embeddings": POSITIONS,
        "initializer_range": 0.6,
    }


def _qwen2() -> Any:
    config: Any = transformers.Qwen2Config(**_attention_sizes(), tie_word_embeddings=True)
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
        "initializer_range": 0.6,
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
    config: Any = transformers.MistralConfig(**_attention_sizes(), sliding_window=48)
    return transformers.MistralForCausalLM(config)


MODELS: dict[str, Callable[[], Any]] = {"tiny-qwen2": _qwen2, "tiny-qwen3.5": _qwen35, "tiny-mistral": _mistral}


def make_model(name: str) -> Any:
    """Return the model *name* with random weights, the same each time."""
    with torch.random.fork_rng():
        torch.manual_seed(8)
        return MODELS[name]().eval()


def save(name: str, folder: Path, **options: Any) -> Path:
    """Write the model *name* and its tokenizer into *folder*, and return it."""
    make_model(name).save_pretrained(folder, **options)
    make_tokenizer().save_pretrained(folder)
    return folder


_GGUF_NAMES = {
    "model.embed_tokens": "token_embd",
    "model.norm": "output_norm",
    "input_layernorm": "attn_norm",
    "post_attention_layernorm": "ffn_norm",
    **{f"self_attn.{part}_proj": f"attn_{part}" for part in "qkv"},
    "self_attn.o_proj": "attn_output",
    **{f"mlp.{part}_proj": f"ffn_{part}" for part in ("gate", "up", "down")},
}


def _gguf_name(name: str) -> str:
    """Return what GGUF files call a parameter: blk.0.attn_q.bias for model.layers.0.self_attn.q_proj.bias."""
    module, _, kind = name.rpartition(".")
    if module.startswith("model.layers."):
        _, _, layer, part = module.split(".", 3)
        return f"blk.{layer}.{_GGUF_NAMES[part]}.{kind}"
    return f"{_GGUF_NAMES[module]}.{kind}"


def save_gguf(path: Path, *, architecture: str = "qwen2", chat_template: str = CHAT_TEMPLATE) -> Path:
    """Write the tiny Qwen2 as a GGUF file in FP32 at *path*, and return it."""
    model, tokenizer = make_model("tiny-qwen2"), make_tokenizer()
    config, rows = model.config, model.config.vocab_size
    bpe = json.loads(tokenizer.backend_tokenizer.to_str())["model"]
    texts = [tokenizer.convert_ids_to_tokens(i) or f"<unused {i}>" for i in range(len(tokenizer))]
    texts += [f"<unused {i}>" for i in range(len(tokenizer), rows)]
    kinds = [gguf.TokenType.CONTROL if text in SPECIAL else gguf.TokenType.NORMAL for text in texts]
    for i, text in enumerate(texts):
        if text in MARKERS or i >= len(tokenizer):
            kinds[i] = gguf.TokenType.USER_DEFINED if text in MARKERS else gguf.TokenType.UNUSED
    writer: Any = gguf.GGUFWriter(path, architecture)
    writer.add_block_count(config.num_hidden_layers)
    writer.add_context_length(config.max_position_embeddings)
    writer.add_embedding_length(config.hidden_size)
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_head_count(config.num_attention_heads)
    writer.add_head_count_kv(config.num_key_value_heads)
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    writer.add_rope_freq_base(config.rope_parameters["rope_theta"])
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("qwen2")
    writer.add_token_list(texts)
    writer.add_token_types(kinds)
    writer.add_token_merges([" ".join(merge) for merge in bpe["merges"]])
    writer.add_eos_token_id(tokenizer.eos_token_id)
    writer.add_pad_token_id(tokenizer.pad_token_id)
    writer.add_chat_template(chat_template)
    for name, parameter in model.named_parameters():
        writer.add_tensor(_gguf_name(name), parameter.detach().numpy())
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path
