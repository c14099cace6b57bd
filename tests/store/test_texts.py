"""What has a digest is kept as the text that the digest is over, on both databases."""

from __future__ import annotations

import hashlib
import uuid

import pytest
from sqlalchemy import Text, text
from tests.store.rows import NOW, add_project

from steelyard.hall.canonical import canonical_json, sha256_of_json
from steelyard.hub.db import tables
from steelyard.hub.db.types import JsonText

# What a database that understood it as numbers and objects would write in another way.
ODD = [
    {"top_k": 1, "a": 1.0, "b": 1e-07, "c": 1e16, "d": -0.0, "e": 0.1},
    {"top_k": 1, "Z": {"b": None, "a": [True, {}]}, "_": "", "aa": 2},
    {"top_k": 1, "\xfcber": "\U0001d518", "\u20ac": "a\tb\u2028/"},
]


@pytest.mark.parametrize("settings", ODD, ids=["numbers", "order", "letters"])
def test_a_digest_is_of_the_very_text_that_is_stored_beside_it(database, settings):
    digest = sha256_of_json(settings)
    with database.write() as connection:
        suite = uuid.uuid4()
        project = add_project(connection)
        owned = {"id": suite, "project_id": project, "slug": "s", "name": "s", "created_at": NOW}
        connection.execute(tables.suites.insert().values(owned))
        connection.execute(
            tables.suite_revisions.insert().values(
                id=uuid.uuid4(), suite_id=suite, number=1, digest=digest, retrieval_settings=settings,
                retrieval_config_sha256=digest, case_count=1, created_at=NOW,
            )
        )  # fmt: skip
    with database.read() as connection:
        stored = connection.scalar(text("SELECT retrieval_settings FROM suite_revisions"))
    assert stored == canonical_json(settings)
    assert hashlib.sha256(stored.encode()).hexdigest() == digest


def test_every_column_of_json_is_one_of_text():
    columns = [column for table in tables.metadata.tables.values() for column in table.columns]
    of_json = [column for column in columns if isinstance(column.type, JsonText)]
    assert len(of_json) >= 7
    assert JsonText.impl is Text
    assert [str(column) for column in columns if column.type.__visit_name__ in ("JSON", "JSONB")] == []
