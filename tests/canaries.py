"""Words that must never be seen again: secrets once they were issued, keys, texts and vectors always.

A test adds a canary wherever something secret enters the hub, and later looks for all of them in everything that the
hub has kept, logged or answered. They are looked for as they are, and as other writers of bytes would put them.
"""

from __future__ import annotations

import base64
import json
import struct
from typing import TYPE_CHECKING
from urllib.parse import quote

from sqlalchemy import text

from steelyard.hub.db.database import Database
from steelyard.hub.db.tables import metadata

if TYPE_CHECKING:
    from collections.abc import Iterator


class Canaries:
    """The words, each by what it is."""

    def __init__(self) -> None:
        self._forms: dict[str, set[bytes]] = {}

    def add(self, what: str, word: str) -> str:
        """Add a text, and return it."""
        data = word.encode()
        forms = {
            data,
            json.dumps(word)[1:-1].encode(),
            quote(word).encode(),
            data.hex().encode(),
            base64.b64encode(data).rstrip(b"=")[:-1],  # Its last digit depends on what follows.
            word.encode("utf-16-le"),
        }
        self._forms.setdefault(what, set()).update(forms)
        return word

    def add_secret(self, what: str, secret: str) -> str:
        """Add a secret of the hub's, whose public id may be seen and whose random part may not."""
        self.add(what, secret)
        self.add(what, secret.rpartition("_")[2][:43])
        return secret

    def add_vector(self, what: str, vector: list[float]) -> list[float]:
        """Add a vector by each of its numbers: as text, in float32 and in float64."""
        for value in vector:
            forms = {repr(value).encode(), struct.pack("<f", value), struct.pack("<d", value), struct.pack(">d", value)}
            self._forms.setdefault(what, set()).update(forms)
        self._forms[what].add(base64.b64encode(struct.pack(f"<{len(vector)}f", *vector)).rstrip(b"=")[:-1])
        return vector

    def found_in(self, where: str, data: bytes | str) -> list[str]:
        """Return which canaries are in *data*, which is *where*."""
        haystack = data.encode("utf-8", "surrogateescape") if isinstance(data, str) else data
        return [f"{what} in {where}" for what, forms in self._forms.items() if any(form in haystack for form in forms)]


def kept(url: str) -> Iterator[tuple[str, bytes]]:
    """Give everything that is on the disk: SQLite's files as they are, PostgreSQL's rows as texts."""
    database = Database(url)
    if database.is_postgresql:
        with database.read() as connection:
            for name in metadata.tables:
                for row in connection.execute(text(f'SELECT t::text FROM "{name}" t')):  # Our own names.
                    yield name, row[0].encode()
    else:
        for path in database.path.parent.iterdir():
            yield path.name, path.read_bytes()
    database.close()
