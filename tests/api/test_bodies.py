"""Reading bodies: the limit holds for every byte kept, compressed or not, and bad JSON is a 422 and never a 500."""

from __future__ import annotations

import asyncio
import gzip
import json
import sys
import tracemalloc
import zlib
from typing import TYPE_CHECKING

import pytest
from tests.api.asgi import BEARER, ROW, Exchange, Served, exchange

from steelyard.web.bodies import read_body
from steelyard.web.errors import RequestTimeout

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from starlette.types import Message
    from tests.api.asgi import CountingEngine

LIMIT = 2000
TEXT = json.dumps(ROW).encode()
COMPRESSORS: dict[str, Callable[[bytes], bytes]] = {"gzip": gzip.compress, "zstd": zstd.compress}


@pytest.fixture
def small(serving: Callable[..., Served], engine: CountingEngine) -> Served:
    """A server that takes bodies of up to LIMIT bytes."""
    return serving(engine, max_body_bytes=LIMIT)


def padded(size: int) -> bytes:
    """Return the row as JSON of exactly *size* bytes."""
    return TEXT + b" " * (size - len(TEXT))


def send(served: Served, *chunks: bytes, encoding: str = "", length: object = None, ends: bool = True) -> Exchange:
    headers: list[tuple[bytes, bytes]] = [BEARER]
    if encoding:
        headers.append((b"content-encoding", encoding.encode()))
    if length is None:
        headers.append((b"transfer-encoding", b"chunked"))
    else:
        headers.append((b"content-length", str(length).encode()))
    return exchange(served.server.app, headers=headers, chunks=chunks, ends=ends)


def assert_refused(answer: Exchange, status: int, code: str) -> None:
    assert (answer.status, answer.error["code"]) == (status, code), answer.body


@pytest.mark.parametrize("length", [True, False], ids=["declared", "chunked"])
@pytest.mark.parametrize(("size", "status"), [(LIMIT, 200), (LIMIT + 1, 413)])
def test_the_limit_is_exact(small: Served, size: int, status: int, length: bool) -> None:
    body = padded(size)
    answer = send(small, body, length=size if length else None)
    assert answer.status == status
    if status == 413:
        assert_refused(answer, 413, "request_too_large")
        assert str(LIMIT) in answer.error["message"]


@pytest.mark.parametrize("size", [1, 7, 100])
def test_a_body_in_many_chunks_is_the_same_body(small: Served, size: int) -> None:
    body = padded(LIMIT)
    chunks = [body[k : k + size] for k in range(0, LIMIT, size)]
    assert send(small, *chunks).status == 200
    assert_refused(send(small, *chunks, b" "), 413, "request_too_large")


def test_a_declared_length_over_the_limit_is_refused_before_the_body_is_read(small: Served) -> None:
    answer = send(small, b"x", b"y", length=LIMIT + 1)
    assert_refused(answer, 413, "request_too_large")
    assert answer.read_before_answer == 0
    assert answer.header(b"connection") == b"close"


def test_no_chunk_is_read_after_the_one_that_broke_the_limit(small: Served, engine) -> None:
    answer = send(small, *[b" " * 500] * 50)
    assert_refused(answer, 413, "request_too_large")
    assert answer.read_before_answer == 5
    assert answer.header(b"connection") == b"close"
    assert engine.calls == []


@pytest.mark.parametrize("length", [0, 1, len(TEXT) - 1, LIMIT])
def test_a_declared_length_that_lies_changes_nothing(small: Served, length: int) -> None:
    assert send(small, TEXT, length=length).status == 200
    assert_refused(send(small, padded(LIMIT + 1), length=length), 413, "request_too_large")


@pytest.mark.parametrize("length", ["", "abc", "-1", "+99999", "1e9", "99_999", "0x9999999", "9" * 5000, "٩٩٩٩٩", "²"])
def test_a_declared_length_that_is_not_plain_digits_says_nothing(small: Served, length: str) -> None:
    headers = [BEARER, (b"content-length", length.encode())]
    assert exchange(small.server.app, headers=headers, chunks=[TEXT]).status in {200, 413}
    assert exchange(small.server.app, headers=headers, chunks=[TEXT]).status == 200
    answer = exchange(small.server.app, headers=headers, chunks=[padded(LIMIT + 1)])
    assert_refused(answer, 413, "request_too_large")


@pytest.mark.parametrize("encoding", ["gzip", "zstd", "GZIP", "ZStd", "identity", ""])
def test_gzip_and_zstd_and_none_are_read(small: Served, encoding: str) -> None:
    body = COMPRESSORS.get(encoding.lower(), bytes)(TEXT)
    assert send(small, body, encoding=encoding, length=len(body)).status == 200
    one_by_one = [body[k : k + 1] for k in range(len(body))]
    assert send(small, *one_by_one, encoding=encoding).status == 200


@pytest.mark.parametrize("encoding", ["br", "deflate", "compress", "x-gzip", "gzip, gzip", "gzip, br", "*", "gzip;q=1"])
def test_any_other_encoding_is_a_415(small: Served, engine, encoding: str) -> None:
    answer = send(small, TEXT, encoding=encoding)
    assert_refused(answer, 415, "unsupported_encoding")
    assert answer.read_before_answer == 0
    assert engine.calls == []


def test_two_encoding_headers_are_two_encodings(small: Served) -> None:
    headers = [BEARER, (b"content-encoding", b"gzip"), (b"content-encoding", b"gzip")]
    body = gzip.compress(gzip.compress(TEXT))
    assert_refused(exchange(small.server.app, headers=headers, chunks=[body]), 415, "unsupported_encoding")


@pytest.mark.parametrize("encoding", COMPRESSORS)
@pytest.mark.parametrize(("size", "status"), [(LIMIT, 200), (LIMIT + 1, 413)])
def test_a_compressed_body_counts_decompressed(small: Served, encoding: str, size: int, status: int) -> None:
    body = COMPRESSORS[encoding](padded(size))
    assert len(body) < LIMIT
    assert send(small, body, encoding=encoding, length=len(body)).status == status
    assert send(small, *(body[k : k + 1] for k in range(len(body))), encoding=encoding).status == status


def test_a_compressed_body_that_is_larger_than_its_content_counts_decompressed(small: Served) -> None:
    body = gzip.compress(padded(LIMIT), compresslevel=0)
    assert len(body) > LIMIT
    assert send(small, body, encoding="gzip", length=len(body)).status == 200


@pytest.mark.parametrize("encoding", COMPRESSORS)
def test_a_bomb_is_refused_without_being_held(serving, encoding: str) -> None:
    served = serving(max_body_bytes=100_000)
    bomb = COMPRESSORS[encoding](bytes(64 << 20))
    assert len(bomb) < 100_000
    tracemalloc.start()
    try:
        answer = send(served, bomb, encoding=encoding, length=len(bomb))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert_refused(answer, 413, "request_too_large")
    assert peak < 3_000_000


@pytest.mark.parametrize("encoding", COMPRESSORS)
def test_a_truncated_compressed_body_is_a_422(small: Served, encoding: str) -> None:
    body = COMPRESSORS[encoding](TEXT)
    for size in (0, 1, 5, len(body) // 2, len(body) - 1):
        assert_refused(send(small, body[:size], encoding=encoding), 422, "invalid_request")


@pytest.mark.parametrize("encoding", COMPRESSORS)
def test_a_damaged_compressed_body_is_a_422(small: Served, encoding: str) -> None:
    body = bytearray(COMPRESSORS[encoding](TEXT))
    if encoding == "gzip":
        body[-6] ^= 0xFF  # The checksum.
    else:
        body[0] ^= 0xFF  # The magic number.
    for wrong in (bytes(body), TEXT, b"\x00" * 50, b"\xff" * 50):
        assert_refused(send(small, wrong, encoding=encoding), 422, "invalid_request")


@pytest.mark.parametrize("encoding", COMPRESSORS)
def test_several_frames_are_one_body_and_share_one_limit(small: Served, encoding: str) -> None:
    compress = COMPRESSORS[encoding]
    frames = [compress(TEXT[:10]), compress(b""), compress(TEXT[10:])]
    assert send(small, b"".join(frames), encoding=encoding).status == 200
    assert send(small, *frames, encoding=encoding).status == 200
    over = [compress(padded(LIMIT)), compress(b" ")]
    assert_refused(send(small, b"".join(over), encoding=encoding), 413, "request_too_large")
    assert_refused(send(small, *over, encoding=encoding), 413, "request_too_large")
    assert_refused(send(small, b"".join(frames)[:-1], encoding=encoding), 422, "invalid_request")


def test_a_zstd_frame_that_is_to_be_skipped_is_skipped(small: Served) -> None:
    skippable = b"\x50\x2a\x4d\x18" + (3).to_bytes(4, "little") + b"abc"
    assert send(small, skippable + zstd.compress(TEXT), encoding="zstd").status == 200


def test_a_zstd_body_that_needs_a_huge_window_is_a_422(serving) -> None:
    served = serving()
    parameter = zstd.CompressionParameter
    options: dict[int, int] = {parameter.window_log: 27, parameter.compression_level: 1}
    compressor = zstd.ZstdCompressor(options=options)
    # Unknown to the compressor in advance, the size cannot shrink the window that the frame asks for.
    body = compressor.compress(TEXT) + compressor.flush()
    assert_refused(send(served, body, encoding="zstd"), 422, "invalid_request")


@pytest.mark.parametrize(
    "frame", [gzip.compress(b""), zstd.compress(b""), b"\x50\x2a\x4d\x18" + bytes(4)], ids=["gzip", "zstd", "skippable"]
)
def test_a_compressed_stream_without_content_does_not_go_on_for_ever(small: Served, frame: bytes) -> None:
    encoding = "gzip" if frame[:1] == b"\x1f" else "zstd"
    answer = send(small, *[frame * 20] * 500, encoding=encoding)
    assert answer.status in {413, 422}
    assert answer.read_before_answer < 100


def test_an_endless_gzip_header_does_not_go_on_for_ever(small: Served) -> None:
    header = b"\x1f\x8b\x08\x08" + bytes(6)  # A file name follows, up to a zero byte that never comes.
    answer = send(small, header, *[b"x" * 1000] * 100, encoding="gzip")
    assert_refused(answer, 413, "request_too_large")


@pytest.mark.parametrize("encoding", COMPRESSORS)
def test_a_body_of_very_many_frames_is_refused_before_they_are_all_decoded(serving, encoding: str) -> None:
    served = serving(max_body_bytes=1 << 20)
    frame, body = COMPRESSORS[encoding](b" "), COMPRESSORS[encoding](TEXT)
    assert send(served, frame * 255 + body, encoding=encoding).status == 200
    answer = send(served, frame * 256 + body, encoding=encoding)
    assert_refused(answer, 422, "invalid_request")
    assert "compressed frames" in answer.error["message"]


BAD_JSON: dict[str, bytes] = {
    "nothing": b"",
    "blanks": b" \n\t ",
    "half": b'{"id": ',
    "two values": TEXT + TEXT,
    "single quotes": b"{'id': 1}",
    "a trailing comma": TEXT[:-1] + b",}",
    "a comment": b"// x\n" + TEXT,
    "NaN": TEXT[:-1] + b', "x": NaN}',
    "Infinity": TEXT[:-1] + b', "x": Infinity}',
    "minus Infinity": TEXT[:-1] + b', "x": [-Infinity]}',
    "a NaN body": b"NaN",
    "deep arrays": b"[" * 100_000 + b"]" * 100_000,
    "deep objects": b'{"a":' * 100_000 + b"1" + b"}" * 100_000,
    "open arrays": b"[" * 500_000,
    "4301 digits": TEXT[:-1] + b', "x": ' + b"9" * 4301 + b"}",
    "minus 4301 digits": TEXT[:-1] + b', "state": [-' + b"9" * 4301 + b"]}",
    "a lone high surrogate": TEXT[:-1] + rb', "id": "\ud800"}',
    "a lone low surrogate": TEXT[:-1] + rb', "state": {"\uDFFF": 1}}',
    "surrogates in the wrong order": TEXT[:-1] + rb', "question": "\udc00\ud800"}',
    "a lone surrogate in an ignored key": TEXT[:-1] + rb', "x": "\ud83d!"}',
    "a surrogate in raw bytes": TEXT[:-1] + b', "x": "\xed\xa0\x80"}',
    "bytes that are not UTF-8": b"\xff\xfe" + TEXT,
    "Latin-1": '{"id": "é"}'.encode("latin-1"),
    "UTF-16": TEXT.decode().encode("utf-16"),
    "UTF-32": TEXT.decode().encode("utf-32"),
    "an overlong encoding": TEXT[:-1] + b', "x": "\xc0\x80"}',
    "a control character": b'{"id": "a\x00b"}',
    "gzip without saying so": gzip.compress(TEXT),
}


@pytest.mark.parametrize("path", ["/decide", "/decide/shared"])
@pytest.mark.parametrize("body", BAD_JSON.values(), ids=BAD_JSON.keys())
def test_bad_json_is_a_422(served: Served, engine, path: str, body: bytes) -> None:
    answer = exchange(served.server.app, path, chunks=[body])
    assert_refused(answer, 422, "invalid_request")
    assert len(answer.error["message"]) < 200
    assert engine.calls == []


@pytest.mark.parametrize("number", ["1e999", "-1e999", "[[1, 1e400]]"])
def test_a_state_with_a_number_beyond_floats_is_a_422(served: Served, number: str) -> None:
    body = TEXT[:-1] + f', "state": {{"n": {number}}}}}'.encode()
    answer = exchange(served.server.app, chunks=[body])
    assert (answer.status, answer.error["message"]) == (422, "state must be finite JSON-compatible data")


def test_a_pair_of_surrogate_escapes_is_a_character(served: Served) -> None:
    answer = exchange(served.server.app, chunks=[TEXT[:-1] + rb', "id": "\ud83d\ude00"}'])
    assert json.loads(answer.body)["id"] == "\U0001f600"


def test_no_depth_of_nesting_fails_after_the_body_is_read(served: Served) -> None:
    statuses = set()
    for depth in [*range(1, 60, 13), *range(850, 1010)]:
        for pair in ("[]", "{}"):
            inner = pair[0] * depth if pair == "[]" else '{"a":' * depth + "1"
            state = inner + pair[1] * depth
            for path, row in (
                ("/decide", TEXT[:-1] + f', "state": {state}}}'.encode()),
                ("/decide/shared", f'{{"state": {state}, "decisions": [{TEXT.decode()}]}}'.encode()),
            ):
                statuses.add(exchange(served.server.app, path, chunks=[row]).status)
    assert statuses == {200, 422}


def test_a_byte_order_mark_is_allowed(served: Served) -> None:
    assert exchange(served.server.app, chunks=[b"\xef\xbb\xbf" + TEXT]).status == 200


@pytest.mark.parametrize("chunks", [[], [b"{"], [TEXT]])
def test_a_client_that_hangs_up_while_sending_gets_nothing_and_frees_its_place(
    served: Served, engine, chunks: Sequence[bytes]
) -> None:
    answer = exchange(served.server.app, chunks=chunks, ends=False, hangs_up=True)
    assert (answer.status, answer.body) == (0, b"")
    assert served.server.admission.in_progress == 0
    assert engine.calls == []
    assert 'path="/decide",status="499"' in served.client.get("/metrics").text


def test_a_body_that_pauses_too_long_is_a_408(serving) -> None:
    served = serving(body_timeout_s="0.05")
    answer = exchange(served.server.app, chunks=[b"{"], ends=False, headers=[BEARER, (b"content-length", b"50")])
    assert_refused(answer, 408, "request_timeout")
    assert answer.header(b"connection") == b"close"
    assert served.server.admission.in_progress == 0


def test_gzip_is_what_it_is_made_with(small: Served) -> None:
    """Zlib and raw deflate streams are no gzip."""
    for wbits in (15, -15):
        compressor = zlib.compressobj(wbits=wbits)
        body = compressor.compress(TEXT) + compressor.flush()
        assert_refused(send(small, body, encoding="gzip"), 422, "invalid_request")


def test_a_body_that_drips_for_ever_is_a_408_though_no_pause_is_long() -> None:
    async def drip() -> Message:
        await asyncio.sleep(0.001)  # What the client does, not what the test waits for.
        return {"type": "http.request", "body": b" ", "more_body": True}

    with pytest.raises(RequestTimeout):
        asyncio.run(read_body({"headers": []}, drip, limit=1 << 20, timeout_s=0.05))
