from __future__ import annotations

import errno
from pathlib import Path

import pytest

from steelyard.models import store
from steelyard.models.errors import AbsentWeightsError, DiskFullError, ModelsDirError, WrongWeightsError
from steelyard.models.store import Status


@pytest.mark.parametrize(
    ("environ", "expected"),
    [
        ({"SEMIF_MODELS_DIR": "/m", "XDG_CACHE_HOME": "/x", "HOME": "/h"}, "/m"),
        ({"XDG_CACHE_HOME": "/x", "HOME": "/h"}, "/x/steelyard/models"),
        ({"HOME": "/h"}, "/h/.cache/steelyard/models"),
        ({"SEMIF_MODELS_DIR": "", "XDG_CACHE_HOME": "", "HOME": "/h"}, "/h/.cache/steelyard/models"),
        ({"XDG_CACHE_HOME": "relative", "HOME": "/h"}, "/h/.cache/steelyard/models"),
    ],
)
def test_the_directory_comes_from_the_first_variable_that_is_set(environ, expected):
    assert store.models_dir(environ) == Path(expected)


def test_a_relative_directory_is_made_absolute_so_that_messages_can_be_acted_on(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    assert store.models_dir({"SEMIF_MODELS_DIR": "weights"}) == tmp_path / "weights"


def test_an_unknown_home_is_refused_with_the_variable_to_set():
    with pytest.raises(ModelsDirError, match="set SEMIF_MODELS_DIR"):
        store.models_dir({"SEMIF_MODELS_DIR": "~nobody-of-this-name/weights"})


def test_nothing_there_is_absent(tmp_path, weights):
    assert store.status_of(weights, tmp_path / "not-made-yet") is Status.ABSENT


@pytest.mark.parametrize("trace", [store.part_of, store.joined_of, store.pieces_of])
def test_any_trace_of_a_pull_is_partial(tmp_path, weights, trace):
    path = trace(weights, tmp_path)
    path.mkdir() if trace is store.pieces_of else path.write_bytes(b"")
    assert store.status_of(weights, tmp_path) is Status.PARTIAL
    assert store.partials_of(weights, tmp_path) == (path,)


def test_a_file_of_the_right_size_is_present(tmp_path, weights, content):
    store.path_of(weights, tmp_path).write_bytes(content)
    assert store.status_of(weights, tmp_path) is Status.PRESENT


def test_a_file_of_another_size_is_damaged(tmp_path, weights, content):
    store.path_of(weights, tmp_path).write_bytes(content[:-1])
    assert store.status_of(weights, tmp_path) is Status.DAMAGED


def test_the_official_file_verifies_and_each_byte_is_told(tmp_path, weights, content):
    store.path_of(weights, tmp_path).write_bytes(content)
    told: list[int] = []
    store.verify(weights, tmp_path, on_bytes=told.append)
    assert sum(told) == len(content)


def test_an_absent_file_does_not_verify_and_says_how_to_get_it(tmp_path, weights):
    with pytest.raises(AbsentWeightsError, match="run 'steelyard models pull tiny'"):
        store.verify(weights, tmp_path)


def test_a_wrong_size_says_both_sizes(tmp_path, weights, content):
    store.path_of(weights, tmp_path).write_bytes(content[:-1])
    with pytest.raises(WrongWeightsError, match=f"expected {len(content)} bytes, got {len(content) - 1} bytes"):
        store.verify(weights, tmp_path)


def test_one_flipped_bit_says_both_hashes(tmp_path, weights, content):
    store.path_of(weights, tmp_path).write_bytes(bytes([content[0] ^ 1]) + content[1:])
    with pytest.raises(WrongWeightsError, match=f"expected SHA-256 {weights.sha256}, got SHA-256 [0-9a-f]{{64}}"):
        store.verify(weights, tmp_path)


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT])
def test_a_full_disk_says_what_to_do(tmp_path, number):
    with (
        pytest.raises(DiskFullError, match="free some space and run the same command again"),
        store.disk_errors(tmp_path),
    ):
        raise OSError(number, "no")


def test_another_disk_error_keeps_its_reason_and_path(tmp_path):
    with pytest.raises(ModelsDirError, match=r"No such file or directory \(.*gone\)"), store.disk_errors(tmp_path):
        (tmp_path / "gone").open()
