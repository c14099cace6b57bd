from __future__ import annotations

import pytest

from steelyard.models import fetch
from steelyard.models.errors import HubError


@pytest.fixture
def part(tmp_path):
    return tmp_path / "tiny.gguf.part"


@pytest.fixture
def told():
    return []


@pytest.fixture
def fetch_tiny(hub, weights, part, told):
    def fetch_it():
        fetch.fetch(weights, endpoint=hub.url, part=part, on_bytes=told.append)

    return fetch_it


def test_the_official_address_holds_where_no_mirror_is_named():
    assert fetch.endpoint_of({}) == fetch.endpoint_of({"HF_ENDPOINT": ""}) == "https://huggingface.co"


def test_a_mirror_replaces_the_official_address(weights):
    endpoint = fetch.endpoint_of({"HF_ENDPOINT": "https://mirror.test/hub/"})
    assert fetch.url_of(weights, endpoint=endpoint) == "https://mirror.test/hub/someone/tiny/resolve/abc/tiny.gguf"


def test_an_entry_without_an_address_says_so(make_weights):
    with pytest.raises(HubError, match="No official hub address is known for exactly the file of tiny"):
        fetch.url_of(make_weights(hub_repository=None, hub_revision=None), endpoint="https://huggingface.co")


def test_the_whole_file_comes_in_one_request(hub, fetch_tiny, part, told, content):
    fetch_tiny()
    assert part.read_bytes() == content
    assert hub.requests == [("/someone/tiny/resolve/abc/tiny.gguf", None)]
    assert sum(told) == len(content)


def test_a_part_is_continued_where_it_ends(hub, fetch_tiny, part, told, content):
    part.write_bytes(content[:1000])
    fetch_tiny()
    assert part.read_bytes() == content
    assert [asked for _path, asked in hub.requests] == ["bytes=1000-"]
    assert sum(told) == len(content)


def test_a_complete_part_asks_the_hub_nothing(hub, fetch_tiny, part, told, content):
    part.write_bytes(content)
    fetch_tiny()
    assert hub.requests == []
    assert sum(told) == len(content)


def test_a_broken_line_is_continued_at_the_byte_where_it_broke(hub, replies, fetch_tiny, part, told, content):
    hub.replies = [replies["ranged"](stop=100_000), replies["ranged"](stop=150_000), replies["ranged"]()]
    fetch_tiny()
    assert part.read_bytes() == content
    assert [asked for _path, asked in hub.requests] == [None, "bytes=100000-", "bytes=150000-"]
    assert sum(told) == len(content)


def test_a_line_that_keeps_breaking_is_given_up_and_its_bytes_are_kept(hub, replies, fetch_tiny, part, content):
    hub.replies = [replies["ranged"](stop=10_000 * i) for i in range(1, 9)]
    with pytest.raises(HubError, match="broke the download off 5 times"):
        fetch_tiny()
    assert part.read_bytes() == content[:50_000]


def test_a_line_that_breaks_before_any_byte_is_given_up_at_once(hub, replies, fetch_tiny, part):
    hub.replies = [replies["ranged"](stop=0)]
    with pytest.raises(HubError, match="cannot be reached"):
        fetch_tiny()
    assert len(hub.requests) == 1


def test_a_server_that_ignores_ranges_starts_the_file_again(hub, replies, fetch_tiny, part, told, content):
    part.write_bytes(b"x" * 1000)
    hub.replies = [replies["whole"]()]
    fetch_tiny()
    assert part.read_bytes() == content
    assert sum(told) == len(content)


def test_a_part_larger_than_the_official_file_is_thrown_away(hub, fetch_tiny, part, content):
    part.write_bytes(content + b"x")
    fetch_tiny()
    assert part.read_bytes() == content
    assert [asked for _path, asked in hub.requests] == [None]


def test_a_range_that_the_server_cannot_satisfy_starts_the_file_again(hub, replies, fetch_tiny, part, told, content):
    part.write_bytes(content[:1000])
    hub.replies = [replies["answer"](416), replies["ranged"]()]
    fetch_tiny()
    assert part.read_bytes() == content
    assert [asked for _path, asked in hub.requests] == ["bytes=1000-", None]
    assert sum(told) == len(content)


def test_a_416_to_a_request_without_a_range_is_a_refusal(hub, replies, fetch_tiny):
    hub.replies = [replies["answer"](416)]
    with pytest.raises(HubError, match="answered 416"):
        fetch_tiny()


@pytest.mark.parametrize("status", [401, 403, 404, 429, 500, 503])
def test_a_refusal_names_its_status_and_keeps_the_part(hub, replies, fetch_tiny, part, content, status):
    part.write_bytes(content[:1000])
    hub.replies = [replies["answer"](status, b"<html>no</html>")]
    with pytest.raises(HubError, match=f"The hub at 127.0.0.1 answered {status} instead of the file"):
        fetch_tiny()
    assert part.read_bytes() == content[:1000]


def test_a_redirect_is_followed_with_its_range(hub, replies, fetch_tiny, part, content):
    part.write_bytes(content[:1000])
    hub.replies = [replies["answer"](302, Location="/storage/tiny"), replies["ranged"]()]
    fetch_tiny()
    assert part.read_bytes() == content
    assert hub.requests[1] == ("/storage/tiny", "bytes=1000-")


def test_redirects_without_end_are_given_up(hub, replies, fetch_tiny):
    hub.replies = [replies["answer"](302, Location="/round")]
    with pytest.raises(HubError, match="cannot be reached"):
        fetch_tiny()


def test_another_length_is_refused_before_its_bytes_are_written(hub, replies, fetch_tiny, part, content):
    hub.replies = [replies["whole"](content + b"x")]
    with pytest.raises(HubError, match=f"offers {len(content) + 1} bytes where the official file has {len(content)}"):
        fetch_tiny()
    assert not part.exists()


def test_a_login_page_does_not_replace_a_part(hub, replies, fetch_tiny, part, content):
    part.write_bytes(content[:1000])
    hub.replies = [replies["whole"](b"<html>log in</html>")]
    with pytest.raises(HubError, match="offers 19 bytes"):
        fetch_tiny()
    assert part.read_bytes() == content[:1000]


def test_more_bytes_than_the_official_file_has_are_thrown_away(hub, replies, fetch_tiny, part, content):
    hub.replies = [replies["answer"](200, content + b"x")]
    with pytest.raises(HubError, match="sent more bytes"):
        fetch_tiny()
    assert not part.exists()


@pytest.mark.parametrize("given", ["bytes 0-255999/256000", "bytes 1000-255998/255999", ""])
def test_another_range_than_was_asked_for_is_refused(hub, replies, fetch_tiny, part, content, given):
    part.write_bytes(content[:1000])
    hub.replies = [replies["answer"](206, content, Content_Range=given)]
    with pytest.raises(HubError, match="another range"):
        fetch_tiny()
    assert part.read_bytes() == content[:1000]


def test_a_range_of_unknown_total_is_taken(hub, replies, fetch_tiny, part, content):
    part.write_bytes(content[:1000])
    hub.replies = [replies["answer"](206, content[1000:], Content_Range=f"bytes 1000-{len(content) - 1}/*")]
    fetch_tiny()
    assert part.read_bytes() == content


def test_a_hub_that_cannot_be_reached_is_named(weights, part, dead_endpoint):
    with pytest.raises(HubError, match=r"The hub at 127\.0\.0\.1 cannot be reached"):
        fetch.fetch(weights, endpoint=dead_endpoint, part=part, on_bytes=lambda _count: None)


@pytest.mark.parametrize("endpoint", ["mirror.test", "ftp://mirror.test", "http://[", "http://mirror.test:port"])
def test_an_endpoint_that_is_no_web_address_is_a_hub_error(weights, part, endpoint):
    with pytest.raises(HubError, match="cannot be reached"):
        fetch.fetch(weights, endpoint=endpoint, part=part, on_bytes=lambda _count: None)


def test_the_password_of_a_mirror_is_not_told(weights, part, dead_endpoint):
    endpoint = dead_endpoint.replace("//", "//operator:secret@")
    with pytest.raises(HubError) as caught:
        fetch.fetch(weights, endpoint=endpoint, part=part, on_bytes=lambda _count: None)
    assert "secret" not in str(caught.value)


def test_a_proxy_setting_that_cannot_be_used_is_a_hub_error(weights, part, monkeypatch):
    monkeypatch.setenv("HTTPS_PROXY", "nonsense://proxy.test")
    with pytest.raises(HubError, match="proxy or certificate setting"):
        fetch.fetch(weights, endpoint="https://mirror.test", part=part, on_bytes=lambda _count: None)
