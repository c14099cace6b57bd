"""Builds the commands of one noun from the table and its schemas."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import click

from steelyard.hub.remote.errors import WrongUse
from steelyard.hub.remote.fields import FieldOption, given, options_of, schema_called
from steelyard.hub.remote.naming import Names
from steelyard.hub.remote.nouns import BY_NAME, Noun, Verb
from steelyard.hub.remote.printing import print_issued, print_page, print_thing
from steelyard.hub.remote.session import asking, url_option

if TYPE_CHECKING:
    from collections.abc import Callable

    from steelyard.client import HubClient, Page, Thing

_NAME = click.Argument(["called"], metavar="NAME")
_ID = click.Argument(["called"], metavar="ID")
_JSON = click.Option(["--json", "as_json"], is_flag=True, help="Print JSON.")
_SCOPE = click.Option(["--project", "scope"], metavar="TEXT", help="The project in which names are looked up.")


def list_command(noun: Noun) -> click.Command:
    """Return `list`: one page, with the filters of the schema."""
    options = options_of(schema_called(noun.query))

    def ask(client: HubClient, names: Names, values: dict[str, Any]) -> Page:
        filters = _resolved(options, values, names)
        if values.get("scope") and not any(option.reference and option.field in filters for option in options):
            filters |= _in_project(options, names)
        return client.page(noun.collection, **filters)

    def show(page: Page, *, as_json: bool) -> None:
        print_page(page, columns=noun.columns, as_json=as_json)

    return _command("list", f"List {noun.plural or noun.name}, newest first.", ask, show, options=options)


def show_command(noun: Noun) -> click.Command:
    """Return `show`: one thing by name or id."""

    def ask(client: HubClient, names: Names, values: dict[str, Any]) -> Thing:
        return client.get(noun.collection, names.id_of(noun, values["called"]))

    called = "called NAME, or with this id" if noun.named_by else "with this ID"
    return _command("show", f"Show the {noun.singular} {called}.", ask, _printing(noun), options=[], named=noun)


def create_command(noun: Noun) -> click.Command:
    """Return `create`, or what the noun calls it."""
    schema = schema_called(str(noun.new))
    options = options_of(schema)

    def ask(client: HubClient, names: Names, values: dict[str, Any]) -> Thing:
        return client.create(noun.collection, _resolved(options, values, names))

    show = print_issued if noun.shows_secret else _printing(noun)
    return _command(noun.create, schema.__doc__ or "", ask, show, options=options)


def verb_command(noun: Noun, verb: Verb) -> click.Command:
    """Return the command that changes one thing."""
    options = options_of(schema_called(verb.schema)) if verb.schema else []

    def ask(client: HubClient, names: Names, values: dict[str, Any]) -> Thing:
        thing_id = names.id_of(noun, values["called"])
        fields = _resolved(options, values, names) if verb.schema else None
        return client.act(noun.collection, thing_id, verb.suffix, fields)

    show = print_issued if verb.shows_secret else _printing(noun)
    return _command(verb.name, verb.summary, ask, show, options=options, named=noun)


def _printing(noun: Noun) -> Callable[..., None]:
    return partial(print_thing, lines=noun.lines)


def _command(
    name: str,
    summary: str,
    ask: Callable[[HubClient, Names, dict[str, Any]], Any],
    show: Callable[..., None],
    *,
    options: list[FieldOption],
    named: Noun | None = None,
) -> click.Command:
    has_project = any(option.field == "project_id" for option in options)
    names_things = (named is not None and named.is_owned) or any(option.reference for option in options)
    params: list[click.Parameter] = [_NAME if named.named_by else _ID] if named else []
    params += [option.option for option in options]
    params += [_SCOPE] if names_things and not has_project else []

    def run(*, url: str | None, as_json: bool, **values: Any) -> None:
        with asking(url) as client:
            names = Names(client, values["project_id"] if has_project else values.get("scope"))
            show(ask(client, names, values), as_json=as_json)

    return click.Command(name, callback=run, params=[*params, url_option, _JSON], help=summary)


def _resolved(options: list[FieldOption], values: dict[str, Any], names: Names) -> dict[str, Any]:
    """Return the given fields with ids for names."""
    fields = given(options, values)
    for option in options:
        if option.reference and option.field in fields:
            fields[option.field] = names.id_of(BY_NAME[option.reference], fields[option.field])
    return fields


def _in_project(options: list[FieldOption], names: Names) -> dict[str, Any]:
    """Return the filter that stands for a project where a list has none for projects themselves."""
    if not any(option.field == "project_binding_id" for option in options):
        raise WrongUse("--project only says where a name is looked up, and no name was given")
    return {"project_binding_id": names.only_binding()}
