"""The documents say what the code does: generated tables are fresh, walks are walked, commands exist."""

from __future__ import annotations

import re
import subprocess
import sys
import threading
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from starlette.testclient import TestClient

from steelyard.decide import startup
from steelyard.decide.app import DecisionServer, build_server
from steelyard.decide.settings import load_settings
from steelyard.embed import app as embed_app
from steelyard.embed import startup as embed_startup
from steelyard.embed.settings import load_settings as load_embed_settings

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[2]
TOKEN = "t" * 32
OPTIONS = [{"id": "yes", "description": "Yes"}, {"id": "no", "description": "No"}]
ROW = {"id": "a", "state": "It rains.", "question": "Does it rain?", "options": OPTIONS}


def walk(title: str) -> list[str]:
    """Return the functions that the walk called *title* names, in order."""
    page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    section = page.split(f"### {title}\n")[1].split("\n### ")[0]
    return re.findall(r"^\d+\. `([\w.]+:[\w.]+)`", section, re.MULTILINE)


def start() -> DecisionServer:
    environ = {"SEMIF_API_TOKEN": TOKEN, "SEMIF_MODEL": "fake"}
    settings = load_settings(environ)
    engine = startup.start_engine(settings, environ=environ)
    return build_server(settings, engine, on_poisoned=lambda: None)


def post(server: DecisionServer | embed_app.EmbeddingServer, path: str, body: dict[str, object]) -> None:
    answer = TestClient(server.app).post(path, json=body, headers={"Authorization": f"Bearer {TOKEN}"})
    assert answer.status_code == 200


@contextmanager
def calls_noted() -> Iterator[list[str]]:
    """Note every function of ours by its first call, from this thread and every one that starts meanwhile."""
    called: list[str] = []

    def note(frame, event, _argument):
        name = f"{frame.f_globals.get('__name__', '')}:{frame.f_code.co_qualname}"
        if event == "call" and name.startswith("steelyard.") and name not in called:
            called.append(name)

    threading.setprofile(note)
    sys.setprofile(note)
    try:
        yield called
    finally:
        sys.setprofile(None)
        threading.setprofile(None)


@pytest.mark.parametrize(
    ("title", "path", "body"),
    [
        ("A row is decided", "/decide", ROW),
        (
            "Many questions over one state, averaged",
            "/decide/shared",
            {
                "state": ROW["state"],
                "decisions": [{"id": "a", "question": "Does it rain?", "options": OPTIONS, "orderings": "rotations"}],
            },
        ),
    ],
)
def test_a_request_walks_through_the_functions_that_the_architecture_names_in_their_order(title, path, body):
    server = start()
    with calls_noted() as called:
        post(server, path, body)
    server.thread.close()
    assert len(walk(title)) > 5
    assert [name for name in called if name in walk(title)] == walk(title)


def test_a_start_walks_through_the_functions_that_the_architecture_names_in_their_order():
    with calls_noted() as called:
        start().thread.close()
    assert len(walk("A server starts")) > 3
    assert [name for name in called if name in walk("A server starts")] == walk("A server starts")


def start_embed_runtime():
    environ = {"STEELYARD_EMBED_API_TOKEN": TOKEN, "STEELYARD_EMBED_MODEL": "fake"}
    settings = load_embed_settings(environ)
    return settings, embed_startup.start_runtime(settings, environ=environ)


def test_a_text_walks_through_the_functions_that_the_architecture_names_in_their_order():
    settings, runtime = start_embed_runtime()
    with calls_noted() as called:
        server = embed_app.build_server(settings, runtime, on_poisoned=lambda: None)
        post(server, "/v1/embeddings", {"model": "fake", "input": "a text"})
    server.close()
    title = "A text is embedded"
    assert len(walk(title)) > 10
    assert [name for name in called if name in walk(title)] == walk(title)


def test_an_embedding_server_starts_as_the_architecture_says():
    with calls_noted() as called:
        settings, runtime = start_embed_runtime()
        embed_app.build_server(settings, runtime, on_poisoned=lambda: None).close()
    title = "An embedding server starts"
    assert len(walk(title)) > 3
    assert [name for name in called if name in walk(title)] == walk(title)


def test_generated_tables_are_up_to_date():
    subprocess.run([sys.executable, str(ROOT / "docs" / "generate.py"), "--check"], check=True)


@pytest.mark.parametrize("page", sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")]), ids=lambda page: page.name)
def test_every_link_to_a_file_leads_somewhere(page):
    links = re.findall(r"\]\((?!https?:)([^)#]+)", page.read_text(encoding="utf-8"))
    assert [link for link in links if not (page.parent / link).exists()] == []


def test_every_make_target_that_the_readme_names_exists():
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    readme = (ROOT / "README.md").read_text(encoding="utf-8") + (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    targets = set(re.findall(r"(?:`|^ {4})make ([a-z-]+)", readme, re.MULTILINE))
    assert targets >= {"demo", "test"}
    assert [target for target in targets if not re.search(rf"^{target}:", makefile, re.MULTILINE)] == []
