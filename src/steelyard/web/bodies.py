"""Reading a request's JSON body under a limit that holds for every byte kept, compressed or not."""

from __future__ import annotations

import asyncio
import json
import re
import sys
import zlib
from typing import TYPE_CHECKING, Never, Protocol

from steelyard.web.errors import ClientGone, MalformedBody, RequestTimeout, RequestTooLarge, UnsupportedEncoding

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

if TYPE_CHECKING:
    from starlette.types import Receive, Scope

_LARGEST_ZSTD_WINDOW_LOG = 23  # 8 MiB, what RFC 8878 asks every decoder to support.
_MOST_FRAMES = 256
_SURROGATE_ESCAPE = re.compile(r"\\u[dD][89a-fA-F]")


class _Decoder(Protocol):
    """Decodes a stream piece by piece; *room* bounds what one call may return."""

    def feed(self, chunk: bytes, room: int) -> bytes: ...

    def finish(self) -> None: ...


async def read_json(scope: Scope, receive: Receive, *, limit: int, timeout_s: float) -> object:
    """Return the request's body as Python's json reads it: exact integers, the last repeated key wins.

    Raises UnsupportedEncoding, RequestTooLarge, RequestTimeout, MalformedBody or ClientGone.
    """
    return parse_json(await read_body(scope, receive, limit=limit, timeout_s=timeout_s))


async def read_body(scope: Scope, receive: Receive, *, limit: int, timeout_s: float) -> bytes:
    """Return the decompressed body, of which never more than *limit* bytes are held."""
    headers = list(scope["headers"])
    decoder = _decoder(headers)
    # Compressed, a little content may need more bytes than it has, and a stream without any must still end.
    sent_limit = limit if isinstance(decoder, _Plain) else limit + limit // 8 + 1024
    if _declared_length(headers) > sent_limit:
        raise _too_large(limit)
    try:
        async with asyncio.timeout(timeout_s):  # One for all pieces: a client that drips must not hold its place.
            return await _read_pieces(receive, decoder, limit=limit, sent_limit=sent_limit)
    except TimeoutError:
        raise RequestTimeout(f"The body did not arrive within {timeout_s:g} seconds") from None


async def _read_pieces(receive: Receive, decoder: _Decoder, *, limit: int, sent_limit: int) -> bytes:
    body = bytearray()
    sent, is_last = 0, False
    while not is_last:
        chunk, is_last = await _next_chunk(receive)
        sent += len(chunk)
        if sent > sent_limit:
            raise _too_large(limit)
        _keep(body, chunk, decoder, limit)
    decoder.finish()
    return bytes(body)


def parse_json(body: bytes, *, what: str = "The body") -> object:
    """Return the JSON value in *body*; raises MalformedBody, speaking of *what*, unless it is strict JSON in UTF-8."""
    try:
        text = body.decode("utf-8-sig")
        value: object = json.loads(text, parse_constant=_refuse_constant)
        if _SURROGATE_ESCAPE.search(text):  # Most are halves of a pair; encoding finds the lone ones.
            json.dumps(value, ensure_ascii=False).encode("utf-8")
    except UnicodeDecodeError as error:
        raise MalformedBody(f"{what} is not UTF-8: byte {error.start} is invalid") from None
    except UnicodeEncodeError:
        raise MalformedBody(f"{what} holds a lone surrogate escape, which no UTF-8 text can carry") from None
    except json.JSONDecodeError as error:
        raise MalformedBody(f"{what} is not JSON: {error.msg} at character {error.pos}") from None
    except RecursionError:
        raise MalformedBody(f"{what} is nested too deeply") from None
    except ValueError:
        raise MalformedBody(f"{what} holds NaN, Infinity or an integer of thousands of digits") from None
    return value


def _refuse_constant(name: str) -> Never:
    raise ValueError(name)


def _declared_length(headers: list[tuple[bytes, bytes]]) -> int:
    """Return the declared Content-Length, 0 where it is absent or not plain ASCII digits and so says nothing."""
    for name, value in headers:
        if name == b"content-length" and re.fullmatch(rb"[0-9]{1,18}", value):
            return int(value)
    return 0


async def _next_chunk(receive: Receive) -> tuple[bytes, bool]:
    event = await receive()
    if event["type"] == "http.disconnect":
        raise ClientGone
    return event.get("body", b""), not event.get("more_body", False)


def _keep(body: bytearray, chunk: bytes, decoder: _Decoder, limit: int) -> None:
    piece = decoder.feed(chunk, limit - len(body) + 1)  # One byte too many shows that there is more.
    if len(body) + len(piece) > limit:
        raise _too_large(limit)
    body += piece


def _too_large(limit: int) -> RequestTooLarge:
    return RequestTooLarge(f"The body is larger than {limit} bytes; send less in one request")


def _decoder(headers: list[tuple[bytes, bytes]]) -> _Decoder:
    named = b",".join(value for name, value in headers if name == b"content-encoding").strip().lower()
    decoders: dict[bytes, type[_Decoder]] = {b"": _Plain, b"identity": _Plain, b"gzip": _Gzip, b"zstd": _Zstd}
    if named not in decoders:
        raise UnsupportedEncoding
    return decoders[named]()


def _counted(frames: int) -> int:
    """Return one more than *frames*; a body of very many, mostly empty, frames would hold up every other request."""
    if frames >= _MOST_FRAMES:
        raise MalformedBody(f"The body has more than {_MOST_FRAMES} compressed frames; send it as one")
    return frames + 1


class _Plain:
    def feed(self, chunk: bytes, room: int) -> bytes:
        return chunk[:room]

    def finish(self) -> None:
        """Nothing can be missing."""


class _Gzip:
    """RFC 1952, one member or several."""

    def __init__(self) -> None:
        self._stream = zlib.decompressobj(wbits=31)
        self._frames = 1

    def feed(self, chunk: bytes, room: int) -> bytes:
        out = b""
        try:
            while chunk and len(out) < room:
                if self._stream.eof:
                    self._frames = _counted(self._frames)
                    self._stream = zlib.decompressobj(wbits=31)
                out += self._stream.decompress(chunk, room - len(out))
                chunk = self._stream.unused_data or self._stream.unconsumed_tail
        except zlib.error:
            raise MalformedBody("The body is not valid gzip") from None
        return out

    def finish(self) -> None:
        if not self._stream.eof:
            raise MalformedBody("The gzip body is cut short")


class _Zstd:
    """RFC 8878, one frame or several."""

    def __init__(self) -> None:
        self._stream = self._new_stream()
        self._frames = 1

    @staticmethod
    def _new_stream() -> zstd.ZstdDecompressor:
        return zstd.ZstdDecompressor(options={zstd.DecompressionParameter.window_log_max: _LARGEST_ZSTD_WINDOW_LOG})

    def feed(self, chunk: bytes, room: int) -> bytes:
        out = b""
        try:
            while chunk and len(out) < room:
                if self._stream.eof:
                    self._frames = _counted(self._frames)
                    self._stream = self._new_stream()
                out += self._stream.decompress(chunk, room - len(out))
                while not (self._stream.eof or self._stream.needs_input) and len(out) < room:
                    out += self._stream.decompress(b"", room - len(out))
                chunk = self._stream.unused_data if self._stream.eof else b""
        except zstd.ZstdError:
            raise MalformedBody("The body is not valid zstd, or needs a window of more than 8 MiB") from None
        return out

    def finish(self) -> None:
        if not self._stream.eof:
            raise MalformedBody("The zstd body is cut short")
