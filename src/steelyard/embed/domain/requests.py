"""The rules of `POST /v1/embeddings`, which is OpenAI's, with one field more: `truncate`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from steelyard.embed.domain.errors import InputTooLong, InvalidRequest, UnknownModel
from steelyard.hall.texts import shorten

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from steelyard.embed.domain.identity import Identity

MOST_INPUTS = 2048
FORMATS = ("float", "base64")


@dataclass(frozen=True)
class Rules:
    """What a server takes."""

    identity: Identity
    max_inputs: int


@dataclass(frozen=True)
class EmbedRequest:
    """A request that keeps the rules; *truncates* says that too long an input is cut instead of refused."""

    texts: tuple[str, ...]
    is_base64: bool
    truncates: bool


def request_from(body: object, *, rules: Rules) -> EmbedRequest:
    """Return the request in *body*; raises InvalidRequest or UnknownModel. Unknown fields, and `user`, are ignored."""
    if not isinstance(body, dict):
        raise InvalidRequest("The body must be a JSON object with `model` and `input`")
    _check_model(body.get("model"), rules.identity)
    _check_dimensions(body.get("dimensions"), rules.identity)
    return EmbedRequest(
        texts=_texts(body.get("input"), max_inputs=rules.max_inputs),
        is_base64=_format(body) == "base64",
        truncates=_truncates(body),
    )


def _check_model(model: object, identity: Identity) -> None:
    if not isinstance(model, str):
        raise InvalidRequest("`model` must be a string", param="model")
    if model != identity.model:
        message = f"The model '{shorten(model)}' is not served here; this server has {identity.model}"
        raise UnknownModel(message, param="model")


def _check_dimensions(dimensions: object, identity: Identity) -> None:
    if dimensions is None:
        return
    if not isinstance(dimensions, int) or isinstance(dimensions, bool) or dimensions != identity.dimension:
        message = f"`dimensions` must be {identity.dimension}, which is the model's; its vectors are not shortened"
        raise InvalidRequest(message, param="dimensions")


def _texts(value: object, *, max_inputs: int) -> tuple[str, ...]:
    texts = [value] if isinstance(value, str) else value
    if not isinstance(texts, list):
        raise InvalidRequest("`input` must be a string or a list of strings", param="input")
    if not 1 <= len(texts) <= max_inputs:
        raise InvalidRequest(f"`input` has {len(texts)} items; it takes 1 to {max_inputs}", param="input")
    for index, text in enumerate(texts):
        _check_text(text, index=index)
    return tuple(texts)


def _check_text(text: object, *, index: int) -> None:
    if isinstance(text, int | list):
        raise InvalidRequest(f"`input[{index}]` is tokens; this server takes strings only", param="input")
    if not isinstance(text, str):
        raise InvalidRequest(f"`input[{index}]` must be a string", param="input")
    if not text:
        raise InvalidRequest(f"`input[{index}]` is an empty string", param="input")


def _format(body: Mapping[str, object]) -> object:
    chosen = body.get("encoding_format")
    if chosen not in (None, *FORMATS):
        raise InvalidRequest("`encoding_format` must be float or base64", param="encoding_format")
    return chosen


def _truncates(body: Mapping[str, object]) -> bool:
    chosen = body.get("truncate")
    if chosen is not None and not isinstance(chosen, bool):
        raise InvalidRequest("`truncate` must be true or false", param="truncate")
    return bool(chosen)


def too_long(counts: Sequence[int], *, limit: int) -> list[int]:
    """Return the places of the inputs with more than *limit* tokens."""
    return [index for index, count in enumerate(counts) if count > limit]


def refuse_too_long(counts: Sequence[int], *, limit: int) -> None:
    """Raise InputTooLong, which names the first input with more than *limit* tokens, where there is one."""
    for index in too_long(counts, limit=limit)[:1]:
        raise InputTooLong(
            f"`input[{index}]` has {counts[index]} tokens and the model takes {limit}; shorten it, or send "
            '"truncate": true to have its beginning embedded',
            param="input",
        )
