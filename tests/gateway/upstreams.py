"""A real HTTP server in place of an embedding server: it answers as OpenAI does, or as badly as a test asks."""

from __future__ import annotations

import base64
import json
import threading
from array import array
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

DIMENSION = 4


def vector_of(text: str) -> list[float]:
    """Return the vector of *text*: numbers that float32 holds exactly."""
    return [float(len(text)), 0.5, -0.25, float(sum(text.encode()) % 1024)]


def answer_to(body: dict[str, Any], **changes: Any) -> dict[str, Any]:
    """Return what OpenAI would answer to *body*, with a token for each byte."""
    encode = _base64 if body.get("encoding_format") == "base64" else list
    data = [
        {"object": "embedding", "index": index, "embedding": encode(vector_of(text))}
        for index, text in enumerate(body["input"])
    ]
    tokens = sum(len(text.encode()) for text in body["input"])
    usage = {"prompt_tokens": tokens, "total_tokens": tokens}
    return {"object": "list", "model": body["model"], "data": data, "usage": usage, **changes}


def _base64(vector: list[float]) -> str:
    return base64.b64encode(array("f", vector).tobytes()).decode()


class Upstream:
    """What was asked, and how it is answered: *reply* gets the handler and the request's JSON."""

    def __init__(self) -> None:
        self.asked: list[dict[str, Any]] = []
        self.headers: list[dict[str, str]] = []
        self.connections = 0
        self.reply: Callable[[Handler, dict[str, Any]], None] = lambda handler, body: handler.json(answer_to(body))
        self.url = ""

    def then(self, *replies: Callable[[Handler, dict[str, Any]], None]) -> None:
        """Answer each request with the next of *replies*, and every later one with the last."""
        rest = list(replies)

        def reply(handler: Handler, body: dict[str, Any]) -> None:
            (rest.pop(0) if len(rest) > 1 else rest[0])(handler, body)

        self.reply = reply


class Handler(BaseHTTPRequestHandler):
    """Answers one connection."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    wbufsize = -1
    upstream: Upstream

    def setup(self) -> None:
        super().setup()
        self.upstream.connections += 1

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.upstream.asked.append(body)
        self.upstream.headers.append({name.lower(): value for name, value in self.headers.items()})
        self.upstream.reply(self, body)

    def json(self, content: object, *, status: int = 200, **headers: str) -> None:
        """Send *content* as JSON, with NaN as Python writes it."""
        self.bytes(json.dumps(content).encode(), status=status, **headers)

    def bytes(self, content: bytes, *, status: int = 200, **headers: str) -> None:
        """Send *content*."""
        self.send_response(status)
        for name, value in {"Content-Length": str(len(content)), **headers}.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        self.wfile.write(content)

    def drop(self) -> None:
        """Close the connection without an answer."""
        self.close_connection = True

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        """Say nothing."""


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 256

    def handle_error(self, request: object, client_address: object) -> None:
        """The gateway may hang up."""


@contextmanager
def serving_upstream() -> Iterator[Upstream]:
    """Serve until the end of the block."""
    upstream = Upstream()
    handler = type("OwnHandler", (Handler,), {"upstream": upstream})
    with _Server(("127.0.0.1", 0), handler) as server:
        upstream.url = f"http://127.0.0.1:{server.server_port}/v1"
        thread = threading.Thread(target=lambda: server.serve_forever(poll_interval=0.02))
        thread.start()
        try:
            yield upstream
        finally:
            server.shutdown()
            thread.join()
