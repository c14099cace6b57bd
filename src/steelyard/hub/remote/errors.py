"""What the commands over HTTP refuse themselves."""

from __future__ import annotations

from steelyard.hall.errors import SteelyardError


class RemoteError(SteelyardError):
    """The command could not be carried out."""

    code = "remote_error"


class NotNamed(RemoteError):
    """Nothing, or more than one thing, has this name."""

    code = "not_named"


class BadFile(RemoteError):
    """The file cannot be used."""

    code = "bad_file"


class WrongUse(RemoteError):
    """The command was used wrongly."""

    code = "wrong_use"


class MissingExtra(RemoteError):
    """A library of the extra `hub` is not installed."""

    code = "missing_extra"


class ToldRefusal(RemoteError):
    """The hub said no, in the words that a terminal shows."""

    code = "told_refusal"
