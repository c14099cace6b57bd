"""An ONNX model on the processor, run by ONNX Runtime."""

from __future__ import annotations

from array import array
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import onnxruntime as ort

from steelyard.embed.domain.identity import Pooling
from steelyard.embed.domain.ports import Traits
from steelyard.embed.runtimes.tokens import JsonTokenizer

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from steelyard.embed.domain.identity import Identity
    from steelyard.embed.domain.ports import Tokens, Vector

# Each component of a normalised vector, alone and in any batch: measured at most 7.5e-8 (docs/adr/0009).
TOLERANCE = 1e-6
_INPUTS = ("input_ids", "attention_mask", "token_type_ids")
_WARNINGS_AND_WORSE = 3


@dataclass(frozen=True)
class OnnxSource:
    """The bytes of a model and of its tokenizer, whose digests were checked, and how to run them."""

    model: bytes
    tokenizer: str
    identity: Identity
    facts: Mapping[str, object]
    threads: int | None = None


class OnnxRuntime:
    """One session. Raises ValueError where the graph is not one of a text encoder that *source* describes."""

    def __init__(self, source: OnnxSource) -> None:
        self.identity = source.identity
        self.traits = Traits(name="onnx", is_model=True, tolerance=TOLERANCE)
        self.tokenizer = JsonTokenizer(source.tokenizer, max_tokens=source.identity.max_tokens)
        self._session = ort.InferenceSession(source.model, _options(source.threads), providers=["CPUExecutionProvider"])
        self._inputs = _known_inputs(self._session)
        _check_output(self._session, source.identity.output)
        self.facts: Mapping[str, object] = {
            **source.facts,
            "onnxruntime_version": ort.__version__,
            "threads": source.threads,
        }

    def embed(self, rows: Sequence[Tokens]) -> list[Vector]:
        """Return the vector of each row, padded to the longest and masked."""
        ids, mask = _padded(rows)
        feeds = {"input_ids": ids, "attention_mask": mask, "token_type_ids": np.zeros_like(ids)}
        (output,) = self._session.run([self.identity.output], {name: feeds[name] for name in self._inputs})
        vectors = _pooled(np.asarray(output, dtype=np.float32), mask, self.identity.pooling)
        if self.identity.is_normalised:
            vectors = _normalised(vectors)
        return [array("f", vector.tobytes()) for vector in vectors]

    def close(self) -> None:
        """Unload the model."""
        del self._session


def _options(threads: int | None) -> ort.SessionOptions:
    options = ort.SessionOptions()
    options.intra_op_num_threads = threads or 0  # 0 stands for the number of cores.
    options.inter_op_num_threads = 1
    options.log_severity_level = _WARNINGS_AND_WORSE
    # Threads that spin while they wait take the cores from whatever else this machine does.
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    return options


def _known_inputs(session: ort.InferenceSession) -> list[str]:
    names = [entry.name for entry in session.get_inputs()]
    if strange := [name for name in names if name not in _INPUTS]:
        raise ValueError(f"the model has an input {strange[0]!r}; only {', '.join(_INPUTS)} can be given")
    return names


def _check_output(session: ort.InferenceSession, output: str) -> None:
    names = [entry.name for entry in session.get_outputs()]
    if output not in names:
        raise ValueError(f"the model has no output {output!r}; it has {', '.join(map(repr, names))}")


def _padded(rows: Sequence[Tokens]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return ids and mask, one line per row; what the padding's ids are does not matter, for it is masked."""
    shape = (len(rows), max(map(len, rows)))
    ids, mask = np.zeros(shape, np.int64), np.zeros(shape, np.int64)
    for line, row in enumerate(rows):
        ids[line, : len(row)] = row
        mask[line, : len(row)] = 1
    return ids, mask


def _pooled(output: NDArray[np.float32], mask: NDArray[np.int64], pooling: Pooling) -> NDArray[np.float32]:
    """Return one vector per row; raises ValueError where the output has another shape than *pooling* needs."""
    if output.ndim != (2 if pooling is Pooling.NONE else 3):
        raise ValueError(f"the model's output has {output.ndim} axes, which the pooling {pooling} cannot read")
    if pooling is Pooling.NONE:
        return output
    if pooling is Pooling.CLS:
        return output[:, 0]
    weights = mask[:, :, None].astype(np.float32)
    means: NDArray[np.float32] = (output * weights).sum(axis=1) / weights.sum(axis=1)
    return means


def _normalised(vectors: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return *vectors* with Euclidean length 1; a zero vector gives NaN, which is an error for whoever asked."""
    with np.errstate(divide="ignore", invalid="ignore"):
        lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
        normalised: NDArray[np.float32] = (vectors / lengths).astype(np.float32)
    return normalised
