"""What refuses a library that is not the pinned build. The real one loads in the contract suite."""

from __future__ import annotations

import ctypes
import importlib.metadata
from types import SimpleNamespace

import pytest

from steelyard.decide.engines import llama_abi as abi

MODEL = {"n_gpu_layers": -1, "split_mode": 1, "load_mode": -1, "use_extra_bufts": True, "vocab_only": False}
CONTEXT = {
    "n_ctx": 512, "n_batch": 2048, "n_ubatch": 512, "n_seq_max": 1, "n_threads": 4, "yarn_beta_fast": -1.0,
    "flash_attn_type": -1, "type_k": 1, "offload_kqv": True, "kv_unified": False,
}  # fmt: skip


class FakeFunction:
    """A C function that gives *value*."""

    def __init__(self, value: object = None) -> None:
        self.value = value

    def __call__(self) -> object:
        return self.value


def library(*, lacks: str = "", model: dict | None = None, context: dict | None = None) -> SimpleNamespace:
    functions = {name: FakeFunction() for name in abi._SIGNATURES if name != lacks}
    functions["llama_model_default_params"] = FakeFunction(SimpleNamespace(**(MODEL | (model or {}))))
    functions["llama_context_default_params"] = FakeFunction(SimpleNamespace(**(CONTEXT | (context or {}))))
    return SimpleNamespace(**functions)


@pytest.fixture
def load(monkeypatch):
    """Load a fake library that is installed as *version*."""

    def loaded(fake: SimpleNamespace, *, version: str = abi.PINNED_VERSION, origin: str | None = "/x.so"):
        monkeypatch.setattr(importlib.metadata, "version", lambda _name: version)
        monkeypatch.setattr(importlib.util, "find_spec", lambda _name: SimpleNamespace(origin=origin))
        monkeypatch.setattr(ctypes, "CDLL", lambda _path: fake)
        return abi.load_library()

    return loaded


def test_the_pinned_build_gets_every_signature(load):
    fake = library()
    assert load(fake) is fake
    for name, (result, arguments) in abi._SIGNATURES.items():
        assert getattr(fake, name).restype is result
        assert getattr(fake, name).argtypes == arguments


def test_a_local_build_of_the_pinned_version_is_taken(load):
    load(library(), version=f"{abi.PINNED_VERSION}+cu128")


@pytest.mark.parametrize("version", ["2026.10.11550", "0.1", f"{abi.PINNED_VERSION}.post1", f"{abi.PINNED_VERSION}rc1"])
def test_another_version_is_refused_with_both_named(load, version):
    with pytest.raises(
        ImportError, match=f"^the llamacpp engine needs xllamacpp {abi.PINNED_VERSION}, found {version}$"
    ):
        load(library(), version=version)


def test_without_the_package_the_refusal_says_what_to_install(monkeypatch):
    def missing(_name: str) -> str:
        raise importlib.metadata.PackageNotFoundError

    monkeypatch.setattr(importlib.metadata, "version", missing)
    with pytest.raises(
        ImportError, match=r"not installed; in a checkout of steelyard run: pip install '.\[llamacpp\]'"
    ):
        abi.load_library()


def test_a_package_without_its_library_is_refused(load, monkeypatch):
    with pytest.raises(ImportError, match="has no compiled library"):
        load(library(), origin=None)
    monkeypatch.setattr(importlib.util, "find_spec", lambda _name: None)
    with pytest.raises(ImportError, match="has no compiled library"):
        abi.load_library()


@pytest.mark.parametrize("name", ["llama_decode", "llama_memory_seq_cp", "ggml_backend_dev_by_type"])
def test_a_library_that_does_not_export_a_function_is_refused(load, name):
    with pytest.raises(ImportError, match=f"does not export {name}; use another engine"):
        load(library(lacks=name))


@pytest.mark.parametrize(
    "changes",
    [{"model": {"n_gpu_layers": 999}}, {"context": {"n_ctx": 0}}, {"context": {"type_k": 8}},
     {"context": {"kv_unified": True}}],
)  # fmt: skip
def test_a_library_whose_defaults_lie_elsewhere_is_refused(load, changes):
    with pytest.raises(ImportError, match="is not the build this engine was written for"):
        load(library(**changes))


def test_the_dependency_is_pinned_to_the_version_that_the_structs_are_of():
    requirements = importlib.metadata.requires("steelyard") or []
    assert any(line.startswith(f"xllamacpp=={abi.PINNED_VERSION};") for line in requirements)
