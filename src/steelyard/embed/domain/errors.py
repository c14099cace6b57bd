"""What can go wrong while embedding.

    EmbedError
    ├── InvalidRequest (a ValueError)   the caller's input breaks a rule
    │   └── InputTooLong                one input has more tokens than the model takes
    ├── UnknownModel                    the request names another model than the one that is served
    ├── OutOfMemory                     the model had no memory for this input
    └── EmbeddingFailed                 any other failure of the model, a vector that is not finite included

An error knows which field of the request it speaks of (*param*). This module knows no HTTP status;
`embed/api/errors.py` has the table.
"""

from __future__ import annotations

from steelyard.hall.errors import SteelyardError

_OUT_OF_MEMORY = ("out of memory", "bad_alloc", "bad allocation", "failed to allocate memory")


class EmbedError(SteelyardError):
    """The input could not be embedded."""

    code = "embedding_failed"

    def __init__(self, message: str | None = None, *, param: str | None = None) -> None:
        super().__init__(message)
        self.param = param


class InvalidRequest(EmbedError, ValueError):
    """The request breaks a rule of the interface."""

    code = "invalid_request"


class InputTooLong(InvalidRequest):
    """An input has more tokens than the model takes."""

    code = "input_too_long"


class UnknownModel(EmbedError):
    """This server does not serve that model; GET /v1/models says which."""

    code = "model_not_found"


class OutOfMemory(EmbedError):
    """There was no memory to embed this input; send less at once or try again later."""

    code = "out_of_memory"


class EmbeddingFailed(EmbedError):
    """The model failed to embed this input; the server's log has the reason."""

    code = "embedding_failed"


def is_out_of_memory(error: BaseException) -> bool:
    """Tell whether *error* means that memory ran out; ONNX Runtime says so in its message only."""
    return isinstance(error, OutOfMemory | MemoryError) or any(words in str(error).lower() for words in _OUT_OF_MEMORY)
