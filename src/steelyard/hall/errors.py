"""The root of every error that this project raises on purpose.

This module knows no HTTP status and no exit code: each edge (an HTTP app, the command line) has one table of its own.
"""

from __future__ import annotations

from typing import ClassVar


class SteelyardError(Exception):
    """Something went wrong inside steelyard."""

    code: ClassVar[str] = "steelyard_error"

    def __init__(self, message: str | None = None) -> None:
        """Take *message*, or the class docstring's first line where none is given."""
        super().__init__(message or (type(self).__doc__ or "").partition("\n")[0])
