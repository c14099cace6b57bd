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
    if _declared_length(headers) > limit:
        raise _too_large(limit)
    body = bytearray()
    is_last = False
    while not is_last:
        chunk, is_last = await _next_chunk(receive, timeout_s)
        _keep(body, chunk, decoder, limit)
    decoder.finish()
    return bytes(body)


def parse_json(body: bytes) -> object:
    """Return the JSON value in *body*; raises MalformedBody for what is not strict JSON in UTF-8."""
    try:
        text = body.decode("utf-8-sig")
        value: object = json.loads(text, parse_constant=_refuse_constant)
        if _SURROGATE_ESCAPE.search(text):  # Most are halves of a pair; encoding finds the lone ones.
            json.dumps(value, ensure_ascii=False).encode("utf-8")
    except UnicodeDecodeError as error:
        raise MalformedBody(f"The body is not UTF-8: byte {error.start} is invalid") from None
    except UnicodeEncodeError:
        raise MalformedBody("The body holds a lone surrogate escape, which no UTF-8 text can carry") from None
    except json.JSONDecodeError as error:
        raise MalformedBody(f"The body is not JSON: {error.msg} at character {error.pos}") from None
    except RecursionError:
        raise MalformedBody("The body is nested too deeply") from None
    except ValueError:
        raise MalformedBody("The body holds NaN, Infinity or an integer of thousands of digits") from None
    return value


def _refuse_constant(name: str) -> Never:
    raise ValueError(name)


def _declared_length(headers: list[tuple[bytes, bytes]]) -> int:
    """Return the declared Content-Length, 0 where it is absent or not plain ASCII digits and so says nothing."""
    for name, value in headers:
        if name == b"content-length" and re.fullmatch(rb"[0-9]{1,18}", value):
            return int(value)
    return 0


async def _next_chunk(receive: Receive, timeout_s: float) -> tuple[bytes, bool]:
    try:
        async with asyncio.timeout(timeout_s):
            event = await receive()
    except TimeoutError:
        raise RequestTimeout(f"No more of the body arrived within {timeout_s:g} seconds") from None
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


class _Plain:
    def feed(self, chunk: bytes, room: int) -> bytes:
        return chunk[:room]

    def finish(self) -> None:
        """Nothing can be missing."""


class _Gzip:
    """RFC 1952, one member or several."""

    def __init__(self) -> None:
        self._stream = zlib.decompressobj(wbits=31)

    def feed(self, chunk: bytes, room: int) -> bytes:
        out = b""
        try:
            while chunk and len(out) < room:
                if self._stream.eof:
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

    @staticmethod
    def _new_stream() -> zstd.ZstdDecompressor:
        return zstd.ZstdDecompressor(options={zstd.DecompressionParameter.window_log_max: _LARGEST_ZSTD_WINDOW_LOG})

    def feed(self, chunk: bytes, room: int) -> bytes:
        out = b""
        try:
            while chunk and len(out) < room:
                if self._stream.eof:
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
