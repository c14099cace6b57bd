"""What a client asks: the rules of `POST /v1/embeddings`, and the digest that names its input.

A field that the gateway does not know is refused, for a caller that sends one believes that it changes the vectors.
`user` is the exception: OpenAI's clients send it, and it changes nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from steelyard.hall.canonical import sha256_of_json
from steelyard.hall.texts import shorten
from steelyard.hub.gateway.domain.errors import InvalidCall

if TYPE_CHECKING:
    from collections.abc import Mapping

    from steelyard.hub.gateway.domain.targets import Identity

MOST_INPUTS = 2048
INPUT_TYPES = ("query", "document")
ENCODING_FORMATS = ("float", "base64")
_FIELDS = ("model", "input", "encoding_format", "dimensions", "input_type", "user")


@dataclass(frozen=True)
class Call:
    """One checked request; *inputs* as received, before any prompt."""

    model: str
    inputs: tuple[str, ...]
    input_type: str = "query"
    encoding_format: str = "float"
    dimensions: int | None = None

    @property
    def input_sha256(self) -> str:
        """The digest of the inputs' list; a lone text has that of its one-item list."""
        return sha256_of_json(list(self.inputs))


def read_call(body: object) -> Call:
    """Return the call that a JSON *body* makes; a field that is null is absent. Raises InvalidCall."""
    if not isinstance(body, dict):
        raise InvalidCall("The body must be a JSON object")
    fields = {name: value for name, value in body.items() if value is not None}
    _refuse_unknown(fields)
    return Call(
        model=_model(fields.get("model")),
        inputs=_inputs(fields.get("input")),
        input_type=_choice(fields, "input_type", INPUT_TYPES),
        encoding_format=_choice(fields, "encoding_format", ENCODING_FORMATS),
        dimensions=_dimensions(fields.get("dimensions")),
    )


def check_dimensions(call: Call, identity: Identity) -> None:
    """Raise InvalidCall where *call* asks for another dimension than *identity* has."""
    if call.dimensions not in {None, identity.dimension}:
        raise InvalidCall(
            f"dimensions is {call.dimensions}, but this route's vectors have {identity.dimension}: leave it out",
            field="dimensions",
        )


def prompted(call: Call, identity: Identity) -> list[str]:
    """Return the texts to embed: each input after the prompt that *identity* has for its type."""
    prompt = identity.query_prompt if call.input_type == "query" else identity.document_prompt
    return [prompt + text for text in call.inputs]


def _refuse_unknown(fields: Mapping[str, object]) -> None:
    for name in fields:
        if name not in _FIELDS:
            known = ", ".join(_FIELDS)
            raise InvalidCall(f"{shorten(name)} is no field of this endpoint; it takes {known}", field=shorten(name))


def _model(value: object) -> str:
    if not isinstance(value, str) or not value:
        raise InvalidCall("model must name one of your routes; GET /v1/models lists them", field="model")
    return value


def _inputs(value: object) -> tuple[str, ...]:
    texts = [value] if isinstance(value, str) else value
    if not isinstance(texts, list) or not texts:
        raise InvalidCall("input must be a text, or a list of texts that is not empty", field="input")
    if len(texts) > MOST_INPUTS:
        raise InvalidCall(f"input has {len(texts)} texts; send at most {MOST_INPUTS} in one request", field="input")
    for position, text in enumerate(texts):
        _check_text(text, position)
    return tuple(texts)


def _check_text(text: object, position: int) -> None:
    if isinstance(text, int | list):
        raise InvalidCall("input must hold texts: the gateway takes no token arrays, for each route has its own tokens",
                          field="input")  # fmt: skip
    if not isinstance(text, str):
        raise InvalidCall(f"input must hold texts; item {position} is none", field="input")
    if not text:
        raise InvalidCall(f"input must hold no empty text; item {position} is empty", field="input")


def _choice(fields: Mapping[str, object], name: str, choices: tuple[str, ...]) -> str:
    value = fields.get(name, choices[0])
    if not isinstance(value, str) or value not in choices:
        raise InvalidCall(f"{name} must be {' or '.join(choices)}", field=name)
    return value


def _dimensions(value: object) -> int | None:
    if value is not None and (not isinstance(value, int) or isinstance(value, bool)):
        raise InvalidCall("dimensions must be an integer", field="dimensions")
    return value
