"""The gateway's pages say what it does: the walk is walked, the example runs."""

from __future__ import annotations

import os
import re
import subprocess
import sys

import pytest
from tests.gateway.serving import WAIT_S, serving
from tests.gateway.world import make_world
from tests.unit.test_docs import ROOT, calls_noted, walk

from steelyard.hub.db.database import Database

TITLE = "A text goes through the gateway"


@pytest.fixture
def documented(sqlite_databases, upstream):
    with sqlite_databases.fresh() as url:
        database = Database(url)
        yield make_world(database, base_url=upstream.url)
        database.close()


def test_a_text_walks_through_the_functions_that_the_architecture_names_in_their_order(documented):
    with calls_noted() as called, serving(documented) as served:
        assert served.post({"model": "stable", "input": "a", "encoding_format": "base64"}).status_code == 200
    assert len(walk(TITLE)) > 15
    assert [name for name in called if name in walk(TITLE)] == walk(TITLE)


def test_the_example_runs_as_it_stands(documented):
    page = (ROOT / "docs" / "howto" / "gateway.md").read_text(encoding="utf-8")
    [example] = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    with serving(documented) as served:
        variables = {"OPENAI_BASE_URL": f"{served.url}/v1", "OPENAI_API_KEY": documented.secret, "NO_PROXY": "*"}
        finished = subprocess.run(
            [sys.executable, "-c", example], env=dict(os.environ) | variables, capture_output=True, text=True,
            check=True, timeout=WAIT_S,
        )  # fmt: skip
    first, second, third = finished.stdout.splitlines()
    assert first == f"{documented.rows()[0]['request_id']} 4"
    assert second == "2 61"
    assert third == "['stable', 'next']"
    assert [row["input_type"] for row in documented.rows()] == ["query", "document"]
