"""What can go wrong while deciding.

    DecideError
    ├── InvalidRequest (a ValueError)   the caller's input breaks a rule
    ├── OutOfMemory                     the engine had no memory for this call
    └── ScoringFailed                   any other failure of the engine

This module knows no HTTP status; `decide/api/errors.py` has the table.
"""

from __future__ import annotations

from steelyard.hall.errors import SteelyardError

_OUT_OF_MEMORY = ("out of memory", "can't allocate memory", "status_alloc_failed")


class DecideError(SteelyardError):
    """The decision could not be made."""

    code = "scoring_failed"


class InvalidRequest(DecideError, ValueError):
    """The request breaks a rule of the contract."""

    code = "invalid_request"


class OutOfMemory(DecideError):
    """CUDA out of memory"""

    code = "out_of_memory"


class ScoringFailed(DecideError):
    """The model failed to score this request; the server's log has the reason."""

    code = "scoring_failed"


def is_out_of_memory(error: BaseException) -> bool:
    """Tell whether *error* means that memory ran out, whichever library raised it.

    cuBLAS, cuDNN and torch's allocator for the CPU say so in the message of a RuntimeError only.
    """
    if isinstance(error, OutOfMemory | MemoryError):
        return True
    return isinstance(error, RuntimeError) and any(words in str(error).lower() for words in _OUT_OF_MEMORY)
