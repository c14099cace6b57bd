"""The rules of `POST /v1/embeddings`, which is OpenAI's, with one field more: `truncate`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from steelyard.embed.domain.errors import InputTooLong, InvalidRequest, UnknownModel
from steelyard.hall.texts import shorten

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from steelyard.embed.domain.identity import Identity

MOST_INPUTS = 2048
# Of one input. No text in any language comes near it, and tokens of megabytes would take seconds and gigabytes.
CHARACTERS_PER_TOKEN = 256
_PORTION_CHARACTERS = 16_384
FORMATS = ("float", "base64")


@dataclass(frozen=True)
class Rules:
    """What a server takes."""

    identity: Identity
    max_inputs: int

    @property
    def max_characters(self) -> int:
        """The most characters of one input that are looked at."""
        return CHARACTERS_PER_TOKEN * self.identity.max_tokens


@dataclass(frozen=True)
class EmbedRequest:
    """A request that keeps the rules; *truncates* says that too long an input is cut instead of refused.

    *cut* are the places of the texts that were cut for their characters already.
    """

    texts: tuple[str, ...]
    is_base64: bool
    truncates: bool
    cut: tuple[int, ...] = ()


def request_from(body: object, *, rules: Rules) -> EmbedRequest:
    """Return the request in *body*; raises InvalidRequest or UnknownModel. Unknown fields, and `user`, are ignored."""
    if not isinstance(body, dict):
        raise InvalidRequest("The body must be a JSON object with `model` and `input`")
    _check_model(body.get("model"), rules.identity)
    _check_dimensions(body.get("dimensions"), rules.identity)
    texts, most = _texts(body.get("input"), max_inputs=rules.max_inputs), rules.max_characters
    cut = tuple(index for index, text in enumerate(texts) if len(text) > most)
    truncates = _truncates(body)
    if cut and not truncates:
        raise InputTooLong(_too_long(cut[0], f"{len(texts[cut[0]])} characters", f"{most}"), param="input")
    return EmbedRequest(
        texts=tuple(text[:most] for text in texts),
        is_base64=_format(body) == "base64",
        truncates=truncates,
        cut=cut,
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


def portions(texts: Sequence[str]) -> Iterator[slice]:
    """Yield slices of *texts*, in order, that are tokenized at a time: of one text, or of few characters.

    Between two of them other requests have their turn.
    """
    start = size = 0
    for index, text in enumerate(texts):
        if index > start and size + len(text) > _PORTION_CHARACTERS:
            yield slice(start, index)
            start, size = index, 0
        size += len(text)
    yield slice(start, len(texts))


def too_long(counts: Sequence[int], *, limit: int) -> list[int]:
    """Return the places of the inputs with more than *limit* tokens."""
    return [index for index, count in enumerate(counts) if count > limit]


def refuse_too_long(counts: Sequence[int], *, limit: int, first: int = 0) -> None:
    """Raise InputTooLong, which names the first input with more than *limit* tokens, where there is one.

    *first* is the place of the first of *counts* in the request.
    """
    for index in too_long(counts, limit=limit)[:1]:
        raise InputTooLong(_too_long(first + index, f"{counts[index]} tokens", f"{limit}"), param="input")


def _too_long(index: int, size: str, limit: str) -> str:
    return (
        f"`input[{index}]` has {size} and the model takes {limit}; shorten it, or send "
        '"truncate": true to have its beginning embedded'
    )
