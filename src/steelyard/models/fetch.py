"""Downloads of weights from the official hub, or from a mirror of it, that go on where the last one stopped.

The bytes are not checked here: `pull` compares the whole file with the official hash before it gets its name.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import httpx2

from steelyard.models.errors import HubError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from steelyard.models.catalogue import Weights

OFFICIAL_ENDPOINT = "https://huggingface.co"
_ATTEMPTS = 5
_TIMEOUT = httpx2.Timeout(60, connect=10)
# The official bytes are wanted as they are: a transfer encoding would break offsets and sizes.
_HEADERS = {"Accept-Encoding": "identity", "User-Agent": "steelyard"}


def endpoint_of(environ: Mapping[str, str]) -> str:
    """Return the hub's base address without a final slash: HF_ENDPOINT, by which operators name a mirror, if set."""
    return (environ.get("HF_ENDPOINT") or OFFICIAL_ENDPOINT).rstrip("/")


def url_of(weights: Weights, *, endpoint: str) -> str:
    """Return the address of *weights* on the hub at *endpoint*; raises HubError where the entry has none."""
    if weights.hub_repository is None or weights.hub_revision is None:
        raise HubError(f"No official hub address is known for exactly the file of {weights.name}.")
    return f"{endpoint}/{weights.hub_repository}/resolve/{weights.hub_revision}/{weights.hub_path or weights.file_name}"


def fetch(weights: Weights, *, endpoint: str, part: Path, on_bytes: Callable[[int], object]) -> None:
    """Fill the file at *part* up to the official size, keeping what is already in it.

    Raises HubError, after which what *part* holds can be continued later, and OSError from the disk.
    """
    url = url_of(weights, endpoint=endpoint)
    _forget_overlong(part, weights.size_bytes)
    on_bytes(_size(part))
    attempts = 0
    with _client() as client:
        while _size(part) < weights.size_bytes:
            if attempts == _ATTEMPTS:
                raise HubError(f"{_hub(url)} broke the download off {_ATTEMPTS} times.")
            attempts += 1
            _Attempt(url, part=part, size_bytes=weights.size_bytes, on_bytes=on_bytes).make(client)


def _forget_overlong(part: Path, size_bytes: int) -> None:
    if _size(part) > size_bytes:
        part.unlink()


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


def _hub(url: str) -> str:
    """Name the hub by its host alone, since a mirror's address may hold a password."""
    try:
        host = httpx2.URL(url).host
    except httpx2.InvalidURL:
        host = ""
    return f"The hub at {host}" if host else "The hub that HF_ENDPOINT names"


def _client() -> httpx2.Client:
    """Return a client; a proxy or certificate setting of the environment that it cannot use raises HubError."""
    try:
        return httpx2.Client(timeout=_TIMEOUT, headers=_HEADERS, follow_redirects=True)
    except (OSError, ValueError, ImportError) as error:
        raise HubError(f"The hub cannot be asked with this proxy or certificate setting ({error}).") from error


class _Attempt:
    """One request for the bytes that *part* lacks; it may end early, and then the next one goes on."""

    def __init__(self, url: str, *, part: Path, size_bytes: int, on_bytes: Callable[[int], object]) -> None:
        self._url, self._part, self._size_bytes, self._on_bytes = url, part, size_bytes, on_bytes
        self._offset = _size(part)

    def make(self, client: httpx2.Client) -> None:
        """Ask, and write what comes; raises HubError where another try would bring no more."""
        try:
            with client.stream("GET", self._url, headers=self._range()) as response:
                self._take(response)
        except (httpx2.NetworkError, httpx2.TimeoutException, httpx2.RemoteProtocolError) as error:
            # A line that broke in the middle is worth another try; one that gave nothing is not.
            if _size(self._part) <= self._offset:
                raise self._unreachable(error) from error
        except (httpx2.HTTPError, httpx2.InvalidURL) as error:
            raise self._unreachable(error) from error

    def _range(self) -> dict[str, str]:
        return {"Range": f"bytes={self._offset}-"} if self._offset else {}

    def _take(self, response: httpx2.Response) -> None:
        if response.status_code == 416 and self._offset:
            # The server's file ends before ours does, so one of them is wrong: start from nothing.
            self._start_again()
        elif response.status_code == 206:
            self._refuse_other_range(response)
            self._write(response)
        elif response.status_code == 200:
            self._refuse_other_length(response)
            if self._offset:
                self._start_again()
            self._write(response)
        else:
            raise HubError(f"{_hub(self._url)} answered {response.status_code} instead of the file.")

    def _start_again(self) -> None:
        self._on_bytes(-self._offset)
        self._part.unlink(missing_ok=True)
        self._offset = 0

    def _refuse_other_range(self, response: httpx2.Response) -> None:
        given = response.headers.get("Content-Range", "")
        span, _, total = given.removeprefix("bytes ").partition("/")
        if not span.startswith(f"{self._offset}-") or total not in {str(self._size_bytes), "*"}:
            raise HubError(f"{_hub(self._url)} answered with another range than was asked for.")

    def _refuse_other_length(self, response: httpx2.Response) -> None:
        given = response.headers.get("Content-Length", str(self._size_bytes))
        if given != str(self._size_bytes):
            raise HubError(f"{_hub(self._url)} offers {given} bytes where the official file has {self._size_bytes}.")

    def _write(self, response: httpx2.Response) -> None:
        position = self._offset
        with self._part.open("ab") as file:
            for chunk in response.iter_raw():
                position += len(chunk)
                if position > self._size_bytes:
                    self._part.unlink()
                    raise HubError(f"{_hub(self._url)} sent more bytes than the official file has.")
                file.write(chunk)
                self._on_bytes(len(chunk))

    def _unreachable(self, error: Exception) -> HubError:
        reason = str(error) or type(error).__name__
        return HubError(f"{_hub(self._url)} cannot be reached ({reason}).")
