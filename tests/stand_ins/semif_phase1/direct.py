from __future__ import annotations

import hashlib
import json
import weakref
from typing import Any

import torch

OUT_OF_MEMORY, FAILURE, NAN = "[stand-in:out_of_memory]", "[stand-in:failure]", "[stand-in:nan]"
called: list[tuple[str, Any, int]] = []  # Which function, with which rows, and max_tokens.
returned: list[Any] = []
held: list[weakref.ref[torch.Tensor]] = []


def encode(tokenizer: Any, row: dict[str, Any], max_tokens: int) -> tuple[str, list[int]]:
    turns = [{"role": "user", "content": json.dumps({key: row[key] for key in ("state", "question", "options")})}]
    text = tokenizer.apply_chat_template(turns, tokenize=False, add_generation_prompt=True, enable_thinking=False)
    tokens = tokenizer.encode(text, add_special_tokens=False)
    if len(tokens) > max_tokens:
        raise ValueError(
            f"Row {row['id']}: {len(tokens)} input tokens exceed limit {max_tokens}; no truncation allowed"
        )
    return text, tokens


def fail_as_asked(model: Any, state: object) -> None:
    if OUT_OF_MEMORY in str(state):
        tensor = torch.zeros(1000, device=model.device)
        held.append(weakref.ref(tensor))
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate")
    if FAILURE in str(state):
        raise RuntimeError("CUDA error: an illegal memory access was encountered")
    if NAN in str(state):
        raise ValueError("Need at least two finite scores")


def result_of(row: dict[str, Any], text: str, tokens: list[int], logits: torch.Tensor, model: dict[str, Any]) -> Any:
    return {
        "id": row["id"],
        "option_ids": [option["id"] for option in row["options"]],
        "probabilities": torch.softmax(logits.float(), 0).tolist(),
        "option_logits": logits.float().tolist(),
        "input_tokens": len(tokens),
        "prompt_sha256": hashlib.sha256(text.encode()).hexdigest(),
        "prompt_version": "stand-in",
        "model": model,
        "readout": "the stand-in's own",
        "probability_status": "the stand-in's own",
        "own_key": [1.5, None, {"é": True}],
    }


def slots_of(tokenizer: Any, row: dict[str, Any]) -> list[int]:
    slots: list[int] = tokenizer.convert_tokens_to_ids(list("ABCDEFGHIJKLMNOP"[: len(row["options"])]))
    return slots


def score(model: Any, tokenizer: Any, row: dict[str, Any], metadata: dict[str, Any], max_tokens: int = 4096) -> Any:
    called.append(("score", row, max_tokens))
    text, tokens = encode(tokenizer, row, max_tokens)
    fail_as_asked(model, row["state"])
    logits = model(input_ids=torch.tensor([tokens], device=model.device)).logits[0, -1]
    seconds = {"forward_seconds": 0.25, "total_seconds": 0.5}
    returned.append(result_of(row, text, tokens, logits[slots_of(tokenizer, row)], metadata) | seconds)
    return returned[-1]
