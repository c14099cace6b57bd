"""What refuses an acceptance run before or while it runs."""

from __future__ import annotations

from steelyard.hall.errors import SteelyardError


class AcceptanceRefused(SteelyardError):
    """The acceptance run cannot be made with these files."""

    code = "acceptance_refused"
