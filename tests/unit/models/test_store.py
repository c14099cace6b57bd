from __future__ import annotations

import errno
from pathlib import Path

import pytest

from steelyard.models import store
from steelyard.models.errors import AbsentWeightsError, DiskFullError, ModelsDirError, WrongWeightsError
from steelyard.models.store import Status

SECOND = b'{"a": "second file"}'


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


@pytest.fixture
def present(tmp_path, model, content):
    """Give the folder in which both files of a model lie."""
    for weights, data in zip(model.files, (content, SECOND), strict=True):
        store.path_of(weights, tmp_path).write_bytes(data)
    return tmp_path


def test_the_official_files_verify_and_each_byte_is_told(present, model):
    told: list[int] = []
    store.verify(model, present, on_bytes=told.append)
    assert sum(told) == model.size_bytes


def test_a_model_is_present_only_with_all_its_files(present, model, weights):
    assert store.status_of_model(model, present) is Status.PRESENT
    store.path_of(weights, present).unlink()
    assert store.status_of_model(model, present) is Status.PARTIAL
    store.path_of(model.files[1], present).unlink()
    assert store.status_of_model(model, present) is Status.ABSENT


def test_a_model_with_one_file_of_another_size_is_damaged(present, model):
    store.path_of(model.files[1], present).write_bytes(b"{}")
    assert store.status_of_model(model, present) is Status.DAMAGED


@pytest.mark.parametrize("missing", [0, 1])
def test_an_absent_file_does_not_verify_and_says_how_to_get_it(present, model, missing):
    store.path_of(model.files[missing], present).unlink()
    with pytest.raises(AbsentWeightsError, match="run 'steelyard models pull tiny'"):
        store.verify(model, present)


def test_a_wrong_size_says_both_sizes(present, model, weights, content):
    store.path_of(weights, present).write_bytes(content[:-1])
    with pytest.raises(WrongWeightsError, match=f"expected {len(content)} bytes, got {len(content) - 1} bytes"):
        store.verify(model, present)


def test_one_flipped_bit_says_both_hashes(present, model, weights, content):
    store.path_of(weights, present).write_bytes(bytes([content[0] ^ 1]) + content[1:])
    with pytest.raises(WrongWeightsError, match=f"expected SHA-256 {weights.sha256}, got SHA-256 [0-9a-f]{{64}}"):
        store.verify(model, present)


def test_a_wrong_bit_in_a_later_file_is_found_too(present, model):
    store.path_of(model.files[1], present).write_bytes(SECOND.swapcase())
    with pytest.raises(WrongWeightsError, match=r"tiny\.json is not the official file"):
        store.verify(model, present)


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
