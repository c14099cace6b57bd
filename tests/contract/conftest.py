"""Every engine, loaded once a session."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from steelyard.decide.engines.fake import FakeEngine
from steelyard.decide.engines.llama_loading import LlamaSource
from steelyard.decide.engines.llamacpp import LlamaCppEngine

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from steelyard.decide.domain.ports import Engine

MAX_TOKENS = 4096
ENGINES = ["fake", "smollm2-135m", "qwen2.5-coder-0.5b", pytest.param("qwen2.5-coder-1.5b", marks=pytest.mark.slow)]


@pytest.fixture(scope="session")
def loaded(weights) -> Iterator[Callable[[str], Engine]]:
    """Give the engine of a name, loaded once and unloaded at the end."""
    engines: dict[str, Engine] = {"fake": FakeEngine()}

    def load(name: str) -> Engine:
        if name not in engines:
            # One thread: llama.cpp's wait for one another by spinning, and the machine may be busy.
            source = LlamaSource(path=weights(name), name=name, device="cpu", max_tokens=MAX_TOKENS, threads=1)
            engines[name] = LlamaCppEngine(source)
        return engines[name]

    yield load
    for engine in engines.values():
        engine.close()


@pytest.fixture(scope="session", params=ENGINES)
def engine(request, loaded):
    return loaded(request.param)


@pytest.fixture(
    scope="session",
    params=["fake", "smollm2-135m", pytest.param("qwen2.5-coder-0.5b", marks=pytest.mark.slow)],
)
def quick_engine(request, loaded):
    """An engine for the tests with many tokens, which the larger models answer in minutes."""
    return loaded(request.param)
