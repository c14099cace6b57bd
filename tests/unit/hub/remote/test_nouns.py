"""The table of commands reaches everything that the API has."""

from __future__ import annotations

import re
from typing import Any

import click
import pytest
from starlette.testclient import TestClient

from steelyard.hub.remote.commands import NounGroup, add_remote_commands
from steelyard.hub.remote.fields import REFERENCES, given, options_of, schema_called
from steelyard.hub.remote.nouns import BY_NAME, NOUNS
from steelyard.hub.rest.fields import Body

# What has commands of its own, beside the table's.
OWN = {
    ("POST", "/apply"),
    ("POST", "/suites/{}/revisions"),
    ("GET", "/suites/{}/revisions"),
    ("GET", "/suite-revisions/{}"),
    ("GET", "/suite-revisions/{}/cases"),
    ("POST", "/selected-model-comparisons"),
    ("GET", "/selected-model-comparisons/{}/cases"),
}
# What only a consumer may call, a program with a client's credential.
CONSUMERS = {
    ("GET", "/selected-model-comparisons/assigned"),
    ("POST", "/selected-model-comparisons/{}/claim"),
    ("POST", "/selected-model-comparisons/{}/progress"),
    ("POST", "/selected-model-comparisons/{}/result"),
    ("POST", "/selected-model-comparisons/{}/finish"),
}


def reachable() -> set[tuple[str, str]]:
    found = set(OWN)
    for noun in NOUNS:
        found.add(("GET", f"/{noun.collection}"))
        found |= {("GET", f"/{noun.collection}/{{}}")} if noun.is_shown else set()
        found |= {("POST", f"/{noun.collection}")} if noun.new else set()
        found |= {("POST", f"/{noun.collection}/{{}}/{verb.suffix}") for verb in noun.verbs}
    return found


@pytest.fixture(scope="module")
def offered(tmp_path_factory) -> set[tuple[str, str]]:
    """Give every method and path under /api/v1."""
    from steelyard.hub.app import build_hub  # noqa: PLC0415
    from steelyard.hub.db.database import Database  # noqa: PLC0415
    from steelyard.hub.settings import load_settings  # noqa: PLC0415

    database = Database(f"sqlite:///{tmp_path_factory.mktemp('hub') / 'hub.db'}")
    hub = TestClient(build_hub(load_settings({}), database, environ={}).app)
    return {
        (method.upper(), re.sub(r"\{\w+\}", "{}", path.removeprefix("/api/v1")))
        for path, operations in hub.get("/openapi.json").json()["paths"].items()
        if path.startswith("/api/v1")
        for method in operations
    }


def test_every_endpoint_has_its_command_and_every_command_its_endpoint(offered):
    assert reachable() == offered - CONSUMERS
    assert offered >= CONSUMERS


@pytest.mark.parametrize("noun", NOUNS, ids=[noun.name for noun in NOUNS])
def test_every_command_can_be_built_and_says_what_it_does(noun):
    group = NounGroup(noun, more={})
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        assert command.name == name
        assert command.help
        assert name in command.get_help(click.Context(command, info_name=name))
        names = [parameter.name for parameter in command.params]
        assert len(set(names)) == len(names), names
        flags = [flag for parameter in command.params for flag in parameter.opts]
        assert len(set(flags)) == len(flags), flags


def test_no_option_takes_a_secret():
    group = click.Group()
    add_remote_commands(group)
    for noun in NOUNS:
        inner = group.commands[noun.name]
        assert isinstance(inner, click.Group)
        for name in inner.list_commands(click.Context(inner)):
            command = inner.get_command(click.Context(inner), name)
            assert command is not None
            flags = " ".join(flag for parameter in command.params for flag in parameter.opts)
            assert not re.search(r"secret|token|--credential|password", flags), flags


def test_every_reference_is_to_a_noun_that_has_names():
    assert all(BY_NAME[noun].named_by for noun in REFERENCES.values())


def test_a_word_that_is_no_command_is_none():
    group = NounGroup(NOUNS[0], more={})
    assert group.get_command(click.Context(group), "explode") is None


class Everything(Body):
    """A field of each kind."""

    project_binding_id: str | None = None
    files: dict[str, str]
    capabilities: list[str] = []  # noqa: RUF012  # pydantic copies it.
    is_active: bool | None = None
    timeout_s: float = 1.5


def test_what_was_given_becomes_fields_and_the_rest_is_left_to_the_hub():
    options = options_of(Everything)
    values: dict[str, Any] = {option.argument: None for option in options}
    values |= {"files": (("a=b", "1"), ("c", "2")), "capabilities": (), "is_active": False}
    assert given(options, values) == {"files": {"a=b": "1", "c": "2"}, "is_active": False}


def test_a_pair_needs_an_equals_sign():
    (files,) = [option.option for option in options_of(Everything) if option.field == "files"]
    with pytest.raises(click.BadParameter, match="write it as name=value"):
        files.type.convert("ab", None, None)


def test_a_fault_of_ours_is_not_taken_for_a_missing_extra():
    with pytest.raises(ModuleNotFoundError, match="nonsense"):
        schema_called("steelyard.hub.nonsense:Nothing")
