from __future__ import annotations

import copy
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
import torch
from tests import tiny_models

from steelyard.decide.domain.errors import OutOfMemory
from steelyard.decide.engines import host_memory
from steelyard.decide.engines.host_memory import HostMemory, free_bytes, needed_bytes

if TYPE_CHECKING:
    from pathlib import Path

MIB = 1 << 20
TOKENS = 100


@pytest.fixture(scope="module", params=tiny_models.MODELS)
def prefilled(request) -> tuple[Any, Any]:
    """A model's text configuration, and its cache of a hundred tokens."""
    model = tiny_models.make_model(request.param)
    text = model if request.param != "tiny-qwen3.5" else model.model.language_model
    with torch.inference_mode():
        output = text(input_ids=torch.arange(TOKENS)[None], use_cache=True)
    return model.config, output.cache


def bytes_of(cache: Any) -> int:
    """Count what a cache holds by the names of its parts, layer by layer."""
    held = 0
    for layer in cache.layers:
        for name in ("keys", "values"):
            held += getattr(layer, name).nbytes if getattr(layer, name, None) is not None else 0
        for name in ("conv_states", "recurrent_states"):
            held += sum(state.nbytes for state in getattr(layer, name, {}).values() if state is not None)
    return held


def test_every_tensor_of_a_cache_is_counted_the_recurrent_states_too(prefilled):
    config, cache = prefilled
    held = bytes_of(cache)
    assert held > 1000
    # A layer with a short window also keeps its width, as a tensor of one number.
    assert held <= needed_bytes(cache, rows=0, width=9, config=config) <= held + 64


@pytest.mark.parametrize("rows", [1, 7])
def test_what_is_needed_covers_what_the_branches_take(prefilled, rows):
    config, cache = prefilled
    branches = copy.deepcopy(cache)
    branches.reorder_cache(torch.zeros(rows, dtype=torch.long))
    peak = bytes_of(cache) + bytes_of(branches)  # While rows are selected, the copy they come from is there too.
    needed = needed_bytes(cache, rows=rows, width=20, config=config)
    assert peak <= needed <= 3 * peak + rows * 50_000


def test_more_rows_and_wider_ones_need_more(prefilled):
    config, cache = prefilled

    def needed(rows: int, width: int) -> int:
        return needed_bytes(cache, rows=rows, width=width, config=config)

    assert needed(1, 10) < needed(2, 10) < needed(2, 11) < needed(3, 500)
    assert needed(4, 0) - needed(3, 0) > bytes_of(cache)


def test_what_is_needed_covers_activations_the_heads_keys_and_values_and_logits():
    """Measured on qwen2.5-coder-0.5b: without the last two a batch took up to 1.3 times the estimate."""
    text = SimpleNamespace(hidden_size=10, num_attention_heads=2, vocab_size=1000)
    config = SimpleNamespace(get_text_config=lambda: text)
    cache = SimpleNamespace(layers=[], get_seq_length=lambda: 7)
    activations, heads, logits = 3 * 4 * (8 * 10 + 3 * 40), (7 + 3) * 4 * 2 * 2 * 5, 4 * 1000
    assert needed_bytes(cache, rows=2, width=3, config=config) == 2 * (activations + heads + logits)


@pytest.fixture
def room(monkeypatch):
    """Set how many bytes are needed and free."""

    def set_room(*, needed: int, free: int) -> HostMemory:
        monkeypatch.setattr(host_memory, "needed_bytes", lambda _cache, **_facts: needed)
        monkeypatch.setattr(host_memory, "free_bytes", lambda: free)
        return HostMemory()

    return set_room


@pytest.mark.parametrize(("needed", "fits"), [(0, True), (800, True), (801, False), (1000, False)])
def test_a_batch_may_take_four_fifths_of_what_is_free(room, needed, fits):
    memory = room(needed=needed * MIB, free=1000 * MIB)
    if fits:
        memory.check_room(None, rows=9, width=1, config=None)
        return
    with pytest.raises(OutOfMemory) as caught:
        memory.check_room(None, rows=9, width=1, config=None)
    assert str(caught.value) == f"9 rows need about {needed} MiB of memory together, and 1000 MiB are free"


def test_where_a_container_is_over_its_limit_nothing_fits(room):
    with pytest.raises(OutOfMemory):
        room(needed=1, free=-5 * MIB).check_room(None, rows=1, width=1, config=None)


# How much is free.


@pytest.fixture
def group(tmp_path, monkeypatch):
    """A machine with 1000 MiB free, and a control group with these files."""
    machine = SimpleNamespace(virtual_memory=lambda: SimpleNamespace(available=1000 * MIB))
    monkeypatch.setattr(host_memory, "psutil", machine)
    monkeypatch.setattr(host_memory, "_CGROUP", tmp_path)

    def write(**files: str) -> Path:
        for name, text in files.items():
            (tmp_path / f"memory.{name}").write_text(text)
        path: Path = tmp_path
        return path

    return write


STAT = f"anon 5\nfile 7\ninactive_file {50 * MIB}\nactive_file 9\n"


def test_without_a_control_group_the_machine_decides(group):
    assert free_bytes() == 1000 * MIB


def test_a_group_without_a_limit_leaves_it_to_the_machine(group):
    group(max="max\n", current=f"{900 * MIB}\n", stat=STAT)
    assert free_bytes() == 1000 * MIB


def test_under_a_limit_what_is_unused_is_free_and_cached_files_count_as_unused(group):
    group(max=f"{500 * MIB}\n", current=f"{300 * MIB}\n", stat=STAT)
    assert free_bytes() == 250 * MIB


def test_a_limit_above_the_machine_does_not_bind(group):
    group(max=f"{5000 * MIB}\n", current="0\n", stat=STAT)
    assert free_bytes() == 1000 * MIB


def test_a_group_at_its_limit_has_nothing_free(group):
    group(max=f"{300 * MIB}\n", current=f"{360 * MIB}\n", stat=STAT)
    assert free_bytes() == -10 * MIB


@pytest.mark.parametrize("absent", ["max", "current", "stat"])
def test_a_group_that_does_not_tell_all_is_none(group, absent):
    folder = group(max=f"{500 * MIB}\n", current=f"{300 * MIB}\n", stat=STAT)
    (folder / f"memory.{absent}").unlink()
    assert free_bytes() == 1000 * MIB


def test_this_machine_has_some_memory():
    assert free_bytes() > 0


def test_there_is_nothing_to_give_back():
    memory = HostMemory()
    memory.settle()
    memory.synchronize()
    memory.tidy(failed=True)
    memory.close()
    assert memory.peak_bytes is None
