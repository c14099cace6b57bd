"""Which URLs name a database."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from steelyard.hub.db.errors import BadDatabaseUrl
from steelyard.hub.db.urls import read_url, shown


@pytest.mark.parametrize("scheme", ["postgres", "postgresql", "postgresql+psycopg"])
def test_every_way_to_write_postgresql_leads_to_one_driver(scheme):
    url = read_url(f"{scheme}://hub:pass%40word@db.example:5433/hub?sslmode=require")
    assert url.drivername == "postgresql+psycopg"
    assert (url.password, url.port, url.database, url.query["sslmode"]) == ("pass@word", 5433, "hub", "require")


def test_a_file_is_named_by_its_whole_path():
    assert read_url("sqlite:///var/hub.db").database == str(Path.cwd() / "var" / "hub.db")
    assert read_url("sqlite:////srv/hub.db").database == "/srv/hub.db"
    assert read_url("sqlite:///~/hub.db").database == str(Path.home() / "hub.db")


@pytest.mark.parametrize(
    "text",
    [
        "", "hub.db", "sqlite", "sqlite://", "sqlite:///", "sqlite:///:memory:", "sqlite://host/hub.db",
        "sqlite:///hub.db?mode=ro", "mysql://a/b", "postgresql+asyncpg://a/b", "oracle://a/b", "postgresql://host",
        "sqlite:///~no-such-account/hub.db", "sqlite:///a%00b.db", "postgresql://host/", "postgresql:///hub?host=a&port=x",
        "http://host/hub", "postgresql://host:port/hub",
    ],
)  # fmt: skip
def test_anything_else_is_refused(text):
    with pytest.raises(BadDatabaseUrl):
        read_url(text)


def test_a_link_is_the_file_that_it_leads_to(tmp_path):
    (tmp_path / "link.db").symlink_to("data/hub.db")
    (tmp_path / "loop.db").symlink_to("loop.db")
    assert read_url(f"sqlite:///{tmp_path}/link.db").database == str(tmp_path.resolve() / "data" / "hub.db")
    assert read_url(f"sqlite:///{tmp_path}/loop.db").database == str(tmp_path.resolve() / "loop.db")


@given(st.text(st.characters(min_codepoint=33, max_codepoint=126), min_size=8).map(lambda text: f"S{text}S"))
def test_no_refusal_has_a_part_of_the_url(secret):
    with pytest.raises(BadDatabaseUrl) as caught:
        read_url(f"mysql://hub:{secret}")
    assert secret not in str(caught.value)


def test_what_is_shown_has_no_user_and_no_password():
    assert shown(read_url("postgresql://hub:secret@db.example/x")) == "PostgreSQL database x at db.example"
    assert shown(read_url("postgresql:///x?host=/run/pg&password=secret")) == "PostgreSQL database x at /run/pg"
    assert shown(read_url("postgresql:///x")) == "PostgreSQL database x at the local socket"
    assert shown(read_url("sqlite:////srv/hub.db")) == "/srv/hub.db"
