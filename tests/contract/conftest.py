"""Every engine, loaded once a session."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests import tiny_models

from steelyard.decide.engines.fake import FakeEngine
from steelyard.decide.engines.llama_loading import LlamaSource
from steelyard.decide.engines.llamacpp import LlamaCppEngine
from steelyard.decide.engines.torch_engine import TorchEngine
from steelyard.decide.engines.torch_loading import TorchSource

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from steelyard.decide.domain.ports import Engine

MAX_TOKENS = 4096
ON_TORCH = " on torch"  # After a pulled file's name: the same file, dequantised.
TINY = list(tiny_models.MODELS)
ENGINES = [
    "fake",
    *TINY,
    "smollm2-135m",
    f"smollm2-135m{ON_TORCH}",
    "qwen2.5-coder-0.5b",
    pytest.param("qwen2.5-coder-1.5b", marks=pytest.mark.slow),
]
QUICK_ENGINES = [
    "fake",
    *TINY,
    "smollm2-135m",
    pytest.param(f"smollm2-135m{ON_TORCH}", marks=pytest.mark.slow),
    pytest.param("qwen2.5-coder-0.5b", marks=pytest.mark.slow),
]


@pytest.fixture(scope="session")
def loaded(weights, tiny_folder, converted_dir) -> Iterator[Callable[[str], Engine]]:
    """Give the engine of a name, loaded once and unloaded at the end."""
    engines: dict[str, Engine] = {"fake": FakeEngine()}

    def build(name: str) -> Engine:
        # One thread: each library's wait for one another by spinning, and the machine may be busy.
        if name in TINY or name.endswith(ON_TORCH):
            pulled = name.removesuffix(ON_TORCH)
            path = tiny_folder(name) if name in TINY else weights(pulled)
            return TorchEngine(
                TorchSource(
                    name=pulled, path=path, device="cpu", max_tokens=MAX_TOKENS, converted_dir=converted_dir, threads=1
                )
            )
        return LlamaCppEngine(
            LlamaSource(path=weights(name), name=name, device="cpu", max_tokens=MAX_TOKENS, threads=1)
        )

    def load(name: str) -> Engine:
        if name not in engines:
            engines[name] = build(name)
        return engines[name]

    yield load
    for engine in engines.values():
        engine.close()


@pytest.fixture(scope="session", params=ENGINES)
def engine(request, loaded):
    return loaded(request.param)


@pytest.fixture(scope="session", params=QUICK_ENGINES)
def quick_engine(request, loaded):
    """An engine for the tests with many tokens, which the larger models answer in minutes."""
    return loaded(request.param)
