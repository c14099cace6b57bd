from __future__ import annotations

from typing import Any

import torch

from semif_phase1 import direct


def score_shared(
    model: Any, tokenizer: Any, rows: list[dict[str, Any]], metadata: dict[str, Any], max_tokens: int = 4096
) -> tuple[list[Any], dict[str, Any]]:
    """Score all rows in one padded batch; their common prefix is the template's first token."""
    direct.called.append(("score_shared", rows, max_tokens))
    if len({str(row["state"]) for row in rows}) != 1:
        raise ValueError("Shared scoring requires one nonempty exact state")
    encoded = [direct.encode(tokenizer, row, max_tokens) for row in rows]
    direct.fail_as_asked(model, rows[0]["state"])
    width = max(len(tokens) for _text, tokens in encoded)
    batch = [tokens + [tokenizer.pad_token_id] * (width - len(tokens)) for _text, tokens in encoded]
    logits = model(input_ids=torch.tensor(batch, device=model.device)).logits
    model_facts = metadata | {"serving_config": {"engine": "the stand-in's own"}}
    results = [
        direct.result_of(row, text, tokens, own[len(tokens) - 1][direct.slots_of(tokenizer, row)], model_facts)
        for row, (text, tokens), own in zip(rows, encoded, logits, strict=True)
    ]
    timing = {
        "total_seconds": 0.5,
        "encode_seconds": 0.0,
        "prefix_tokens": 1,
        "prefill_seconds": 0.125,
        "replicate_seconds": 0.0,
        "suffix_forward_seconds": 0.25,
        "batch_size": len(rows),
        "true_suffix_tokens": sum(len(tokens) - 1 for _text, tokens in encoded),
        "padded_suffix_tokens": len(rows) * (width - 1),
    }
    direct.returned.append((results, timing))
    return results, timing
