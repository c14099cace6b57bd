"""What makes two vectors comparable: the model, how its output becomes one vector, and how long an input may be."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import cast

_LARGEST_DIMENSION = 65_536
_LARGEST_LENGTH = 1_048_576


class Pooling(StrEnum):
    """How a model's output becomes one vector per input."""

    MEAN = "mean"  # The mean of the tokens' vectors; padding does not count.
    CLS = "cls"  # The first token's vector.
    NONE = "none"  # The model's own graph pools.


@dataclass(frozen=True)
class Identity:
    """One embedding space. *max_tokens* counts the special tokens; *output* is the graph's output that is read."""

    model: str
    dimension: int
    pooling: Pooling
    is_normalised: bool
    max_tokens: int
    dtype: str
    output: str


def identity_from(values: object, *, model: str) -> Identity:
    """Return the identity that the JSON object *values* describes; raises ValueError in words that follow its name.

    Keys: `dimension`, `pooling`, `max_tokens`, `output`; `normalised` (true) and `dtype` ("unknown") may be absent.
    """
    _check(isinstance(values, dict), "be a JSON object")
    values = cast("dict[str, object]", values)
    known = {"dimension", "pooling", "max_tokens", "output", "normalised", "dtype", "sha256"}
    if strange := sorted(set(values) - known):
        raise ValueError(f"has an unknown key {strange[0]!r}; the keys are {', '.join(sorted(known))}")
    return Identity(
        model=model,
        dimension=_count(values, "dimension", limit=_LARGEST_DIMENSION),
        pooling=_pooling(values.get("pooling")),
        is_normalised=_truth(values.get("normalised", True)),
        max_tokens=_count(values, "max_tokens", limit=_LARGEST_LENGTH),
        dtype=_text(values, "dtype", default="unknown"),
        output=_text(values, "output", default=None),
    )


def digests_from(values: object) -> dict[str, str]:
    """Return the pinned SHA-256 by file name from *values*' key `sha256`, empty where it is absent."""
    pins = cast("dict[str, object]", values).get("sha256", {})
    is_right = isinstance(pins, dict) and all(isinstance(pin, str) and len(pin) == 64 for pin in pins.values())
    _check(is_right, "give `sha256` as an object from file name to 64 hexadecimal digits")
    return {str(name): str(pin).lower() for name, pin in cast("dict[str, object]", pins).items()}


def _check(holds: bool, duty: str) -> None:
    """Raise ValueError, which says what the description must do, unless it does."""
    if not holds:
        raise ValueError(f"must {duty}")


def _count(values: dict[str, object], key: str, *, limit: int) -> int:
    value = values.get(key)
    _check(
        isinstance(value, int) and not isinstance(value, bool) and 1 <= value <= limit,
        f"give `{key}` as an integer from 1 to {limit}",
    )
    return cast("int", value)


def _pooling(value: object) -> Pooling:
    _check(value in list(Pooling), f"give `pooling` as one of {', '.join(Pooling)}")
    return Pooling(cast("str", value))


def _truth(value: object) -> bool:
    _check(isinstance(value, bool), "give `normalised` as true or false")
    return bool(value)


def _text(values: dict[str, object], key: str, *, default: str | None) -> str:
    value = values.get(key, default)
    _check(isinstance(value, str) and value != "", f"give `{key}` as a nonempty string")
    return str(value)
