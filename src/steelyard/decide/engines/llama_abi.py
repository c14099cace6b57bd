"""llama.cpp's public C API, as the xllamacpp wheel exports it.

xllamacpp's own server object listens on an HTTP port of its own, gives log-probabilities and hides its cache; the same
wheel exports `llama.h`, which gives logits and sequence copies (docs/adr/0003). The structs below are those of the
pinned build: another build may order them otherwise, so `load_library` checks every default that it can know and
refuses what differs. This module knows no tokens, prompts or models.
"""

from __future__ import annotations

import ctypes as c
import importlib.metadata
import importlib.util
from typing import ClassVar

PINNED_VERSION = "2026.10.11549"
LOG_CALLBACK = c.CFUNCTYPE(None, c.c_int, c.c_char_p, c.c_void_p)


class ModelParams(c.Structure):
    """`struct llama_model_params`."""

    _fields_: ClassVar = [
        ("devices", c.c_void_p),
        ("tensor_buft_overrides", c.c_void_p),
        ("n_gpu_layers", c.c_int32),
        ("split_mode", c.c_int32),
        ("load_mode", c.c_int32),
        ("lazy_mode", c.c_int32),
        ("main_gpu", c.c_int32),
        ("tensor_split", c.c_void_p),
        ("progress_callback", c.c_void_p),
        ("progress_callback_user_data", c.c_void_p),
        ("kv_overrides", c.c_void_p),
        ("vocab_only", c.c_bool),
        ("check_tensors", c.c_bool),
        ("use_extra_bufts", c.c_bool),
        ("no_host", c.c_bool),
        ("no_alloc", c.c_bool),
        ("load_mtp", c.c_bool),
    ]


class ContextParams(c.Structure):
    """`struct llama_context_params`."""

    _fields_: ClassVar = [
        ("n_ctx", c.c_uint32),
        ("n_batch", c.c_uint32),
        ("n_ubatch", c.c_uint32),
        ("n_seq_max", c.c_uint32),
        ("n_rs_seq", c.c_uint32),
        ("n_outputs_max", c.c_uint32),
        ("n_outputs_max_per_seq", c.c_uint32),
        ("n_threads", c.c_int32),
        ("n_threads_batch", c.c_int32),
        ("ctx_type", c.c_int32),
        ("rope_scaling_type", c.c_int32),
        ("pooling_type", c.c_int32),
        ("attention_type", c.c_int32),
        ("flash_attn_type", c.c_int32),
        ("rope_freq_base", c.c_float),
        ("rope_freq_scale", c.c_float),
        ("yarn_ext_factor", c.c_float),
        ("yarn_attn_factor", c.c_float),
        ("yarn_beta_fast", c.c_float),
        ("yarn_beta_slow", c.c_float),
        ("yarn_orig_ctx", c.c_uint32),
        ("defrag_thold", c.c_float),
        ("cb_eval", c.c_void_p),
        ("cb_eval_user_data", c.c_void_p),
        ("type_k", c.c_int32),
        ("type_v", c.c_int32),
        ("moe_cache_size", c.c_size_t),
        ("abort_callback", c.c_void_p),
        ("abort_callback_data", c.c_void_p),
        ("embeddings", c.c_bool),
        ("offload_kqv", c.c_bool),
        ("no_perf", c.c_bool),
        ("op_offload", c.c_bool),
        ("swa_full", c.c_bool),
        ("kv_unified", c.c_bool),
        ("samplers", c.c_void_p),
        ("n_samplers", c.c_size_t),
        ("ctx_other", c.c_void_p),
    ]


class Batch(c.Structure):
    """`struct llama_batch`."""

    _fields_: ClassVar = [
        ("n_tokens", c.c_int32),
        ("token", c.POINTER(c.c_int32)),
        ("embd", c.c_void_p),
        ("pos", c.POINTER(c.c_int32)),
        ("n_seq_id", c.POINTER(c.c_int32)),
        ("seq_id", c.POINTER(c.POINTER(c.c_int32))),
        ("logits", c.POINTER(c.c_int8)),
    ]


_P = c.c_void_p  # Every opaque handle: model, context, vocabulary, memory, device.
_SIGNATURES: dict[str, tuple[object, list[object]]] = {
    "ggml_backend_dev_by_type": (_P, [c.c_int]),
    "ggml_backend_dev_description": (c.c_char_p, [_P]),
    "llama_backend_init": (None, []),
    "llama_batch_free": (None, [Batch]),
    "llama_batch_init": (Batch, [c.c_int32, c.c_int32, c.c_int32]),
    "llama_context_default_params": (ContextParams, []),
    "llama_decode": (c.c_int32, [_P, Batch]),
    "llama_detokenize": (c.c_int32, [_P, c.POINTER(c.c_int32), c.c_int32, c.c_char_p, c.c_int32, c.c_bool, c.c_bool]),
    "llama_free": (None, [_P]),
    "llama_ftype_name": (c.c_char_p, [c.c_int]),
    "llama_get_logits_ith": (c.POINTER(c.c_float), [_P, c.c_int32]),
    "llama_get_memory": (_P, [_P]),
    "llama_init_from_model": (_P, [_P, ContextParams]),
    "llama_log_set": (None, [LOG_CALLBACK, _P]),
    "llama_memory_clear": (None, [_P, c.c_bool]),
    "llama_memory_seq_cp": (None, [_P, c.c_int32, c.c_int32, c.c_int32, c.c_int32]),
    "llama_memory_seq_rm": (c.c_bool, [_P, c.c_int32, c.c_int32, c.c_int32]),
    "llama_model_chat_template": (c.c_char_p, [_P, c.c_char_p]),
    "llama_model_default_params": (ModelParams, []),
    "llama_model_free": (None, [_P]),
    "llama_model_ftype": (c.c_int, [_P]),
    "llama_model_get_vocab": (_P, [_P]),
    "llama_model_has_encoder": (c.c_bool, [_P]),
    "llama_model_load_from_file": (_P, [c.c_char_p, ModelParams]),
    "llama_model_n_ctx_train": (c.c_int32, [_P]),
    "llama_tokenize": (
        c.c_int32,
        [_P, c.c_char_p, c.c_int32, c.POINTER(c.c_int32), c.c_int32, c.c_bool, c.c_bool],
    ),
    "llama_version": (c.c_char_p, []),
    "llama_vocab_bos": (c.c_int32, [_P]),
    "llama_vocab_eos": (c.c_int32, [_P]),
    "llama_vocab_get_attr": (c.c_int32, [_P, c.c_int32]),
    "llama_vocab_get_text": (c.c_char_p, [_P, c.c_int32]),
    "llama_vocab_n_tokens": (c.c_int32, [_P]),
    "llama_vocab_pad": (c.c_int32, [_P]),
}


def load_library() -> c.CDLL:
    """Return the library with every function's signature set; raises ImportError that says what to install."""
    try:
        version = importlib.metadata.version("xllamacpp")
    except importlib.metadata.PackageNotFoundError:
        raise ImportError(
            "the llamacpp engine is not installed; in a checkout of steelyard run: pip install '.[llamacpp]'"
        ) from None
    if version.partition("+")[0] != PINNED_VERSION:
        raise ImportError(f"the llamacpp engine needs xllamacpp {PINNED_VERSION}, found {version}")
    library = _open()
    for name, (result, arguments) in _SIGNATURES.items():
        function = getattr(library, name)
        function.restype, function.argtypes = result, arguments
    _check_layout(library)
    return library


def _open() -> c.CDLL:
    package = importlib.util.find_spec("xllamacpp.xllamacpp")
    if package is None or package.origin is None:
        raise ImportError("xllamacpp is installed but has no compiled library: pip install --force-reinstall xllamacpp")
    library = c.CDLL(package.origin)
    missing = [name for name in _SIGNATURES if not hasattr(library, name)]
    if missing:
        raise ImportError(f"xllamacpp's library for this platform does not export {missing[0]}; use another engine")
    return library


def _check_layout(library: c.CDLL) -> None:
    """Refuse a library whose defaults do not lie where the structs above say: it would read settings as others."""
    model, context = library.llama_model_default_params(), library.llama_context_default_params()
    found = (
        (model.n_gpu_layers, model.split_mode, model.load_mode, model.use_extra_bufts, model.vocab_only),
        (context.n_ctx, context.n_batch, context.n_ubatch, context.n_seq_max, context.n_threads),
        (context.yarn_beta_fast, context.flash_attn_type, context.type_k, context.offload_kqv, context.kv_unified),
    )
    expected = ((-1, 1, -1, True, False), (512, 2048, 512, 1, 4), (-1.0, -1, 1, True, False))
    if found != expected:
        raise ImportError(f"xllamacpp's library is not the build this engine was written for: {found}")
