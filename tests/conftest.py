"""What every tier uses: Hypothesis without deadlines, since the machine is shared, and real weights on request."""

from __future__ import annotations

import functools
import importlib
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings

from steelyard.models import catalogue, fetch, store
from steelyard.models.progress import SilentReport
from steelyard.models.pull import Sources, pull_model

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import ModuleType

STAND_INS = Path(__file__).parent / "stand_ins"

settings.register_profile("steelyard", deadline=None)
settings.load_profile("steelyard")


@pytest.fixture(scope="session")
def weights() -> Callable[[str], Path]:
    """Give the path of a model's main file; all its files are verified, and pulled where they are missing."""

    @functools.cache
    def path_of(name: str) -> Path:
        sources = Sources(fetch.endpoint_of(os.environ))
        directory = store.models_dir(os.environ)
        return pull_model(catalogue.require(name), directory=directory, sources=sources, report=SilentReport())

    return path_of


@pytest.fixture(scope="session")
def converted_dir(tmp_path_factory) -> Path:
    """Where this session keeps what it dequantised."""
    folder: Path = tmp_path_factory.mktemp("converted")
    return folder


@pytest.fixture(scope="session")
def tiny_folder(tmp_path_factory) -> Callable[[str], Path]:
    """Give the folder of a tiny model, written once."""
    from tests.tiny_models import save  # noqa: PLC0415  # It imports torch, which takes seconds.

    folders: dict[str, Path] = {}

    def folder_of(name: str) -> Path:
        if name not in folders:
            folders[name] = save(name, tmp_path_factory.mktemp(name))
        return folders[name]

    return folder_of


@pytest.fixture
def semif(monkeypatch) -> Iterator[ModuleType]:
    """Install the stand-in for SemIf's package for one test, and give its `direct`, which notes every call."""
    monkeypatch.syspath_prepend(STAND_INS)
    names = ("semif_phase1", "semif_phase1.direct", "semif_phase1.shared")
    modules = {name: importlib.import_module(name) for name in names}
    yield modules["semif_phase1.direct"]
    for name in names:
        sys.modules.pop(name, None)
