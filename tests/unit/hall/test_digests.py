from __future__ import annotations

import hashlib

import pytest

from steelyard.hall.digests import sha256_of_file, sha256_of_text


def test_a_texts_digest_is_that_of_its_utf8():
    assert sha256_of_text("") == "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
    assert sha256_of_text("Straße 🐈") == hashlib.sha256("Straße 🐈".encode()).hexdigest()


def test_a_text_that_utf8_cannot_carry_has_no_digest():
    with pytest.raises(UnicodeEncodeError):
        sha256_of_text("\ud800")


def test_a_files_digest_is_that_of_all_its_chunks_and_their_sizes_are_told(tmp_path):
    content = bytes(range(256)) * 4096 + b"and a last, short chunk"
    (tmp_path / "file").write_bytes(content)
    told: list[int] = []
    assert sha256_of_file(tmp_path / "file", on_bytes=told.append) == hashlib.sha256(content).hexdigest()
    assert told == [1 << 20, len(content) - (1 << 20)]


def test_an_empty_file_has_the_digest_of_nothing(tmp_path):
    (tmp_path / "file").touch()
    assert sha256_of_file(tmp_path / "file") == sha256_of_text("")


def test_a_missing_file_is_an_os_error(tmp_path):
    with pytest.raises(FileNotFoundError):
        sha256_of_file(tmp_path / "absent")
