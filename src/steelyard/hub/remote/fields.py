"""Options that follow from a request's schema: one for each field, and references by name."""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from types import NoneType, UnionType
from typing import TYPE_CHECKING, Annotated, Any, Literal, Union, get_args, get_origin
from uuid import UUID

import click

from steelyard.hub.remote.errors import MissingExtra
from steelyard.hub.remote.nouns import BY_NAME
from steelyard.shell.refusals import needs_extra

if TYPE_CHECKING:
    from pydantic import BaseModel
    from pydantic.fields import FieldInfo

# The nouns that fields ending in _id name.
REFERENCES = {
    "project_id": "projects",
    "project_binding_id": "bindings",
    "deployment_id": "deployments",
    "artifact_id": "artifacts",
    "runtime_id": "runtimes",
    "embedding_identity_id": "identities",
    "service_client_id": "clients",
    "route_id": "routes",
}
_OPTION_NAMES = {
    "project_binding_id": "binding",
    "embedding_identity_id": "identity",
    "service_client_id": "client",
    "files": "file",
    "capabilities": "capability",
}


@dataclass(frozen=True)
class FieldOption:
    """A field of a schema and its option; *reference* is the noun that it names, if it names a thing."""

    field: str
    option: click.Option
    reference: str | None

    @property
    def argument(self) -> str:
        """The name under which click gives the option's value."""
        return str(self.option.name)


def schema_called(name: str) -> type[BaseModel]:
    """Return the schema of a table's text, such as steelyard.hub.catalog.schemas:NewRoute; raises MissingExtra."""
    module, _, attribute = name.partition(":")
    try:
        schema: type[BaseModel] = getattr(importlib.import_module(module), attribute)
    except ModuleNotFoundError as error:
        if str(error.name).startswith("steelyard"):
            raise
        raise MissingExtra(f"{needs_extra('hub')} ({error}).") from error
    return schema


def options_of(schema: type[BaseModel]) -> list[FieldOption]:
    """Return an option for every field of *schema*, in its order."""
    return [_option(name, info) for name, info in schema.model_fields.items()]


def _option(field: str, info: FieldInfo) -> FieldOption:
    kind = _plain_type(info.annotation)
    is_reference = kind is UUID and field in REFERENCES
    name = _OPTION_NAMES.get(field) or (field.removesuffix("_id") if is_reference else field).removeprefix("is_")
    flag = "--" + name.replace("_", "-")
    named = f"Its {BY_NAME[REFERENCES[field]].named_by} or id." if is_reference else ""
    declared: dict[str, Any] = {"help": _help(info, named=named), "required": info.is_required()}
    if kind is bool:
        declarations, declared["default"] = [f"{flag}/--no-{flag[2:]}", field], None
    else:
        declarations = [flag, field]
        declared |= _parameter_type(kind)
    return FieldOption(field, click.Option(declarations, **declared), REFERENCES[field] if is_reference else None)


def _plain_type(annotation: Any) -> Any:
    """Return what stands inside Annotated and beside None."""
    while True:
        origin = get_origin(annotation)
        if origin is Annotated:
            annotation = get_args(annotation)[0]
        elif origin in (Union, UnionType):
            annotation = next(part for part in get_args(annotation) if part is not NoneType)
        else:
            return annotation


def _parameter_type(kind: Any) -> dict[str, Any]:
    origin = get_origin(kind)
    if origin is Literal:
        return {"type": click.Choice(get_args(kind))}
    if origin is list:
        return {**_parameter_type(_plain_type(get_args(kind)[0])), "multiple": True}
    if origin is dict:
        return {"type": _Pair(), "multiple": True}
    return {"type": {int: click.INT, float: click.FLOAT}.get(kind, click.STRING)}


def _help(info: FieldInfo, *, named: str) -> str:
    text = info.description or ""
    default = "" if info.is_required() or info.default in (None, "") or info.default_factory else info.default
    shown = f"  [default: {_shown(default)}]" if default not in ("", None) else ""
    return f"{text or named}{shown}".strip()


def _shown(default: object) -> str:
    if isinstance(default, list):
        return ", ".join(map(str, default))
    return str(default).lower() if isinstance(default, bool) else str(default)


class _Pair(click.ParamType[tuple[str, str]]):
    """A name and a value, as name=value."""

    name = "NAME=VALUE"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, str]:
        name, equals, rest = str(value).rpartition("=")
        if not equals:
            self.fail("write it as name=value", param, ctx)
        return name, rest


def given(options: list[FieldOption], values: dict[str, Any]) -> dict[str, Any]:
    """Return the fields that were given, as JSON."""
    fields = {}
    for option in options:
        value = values[option.argument]
        if value is None or (option.option.multiple and not value):
            continue
        if isinstance(option.option.type, _Pair):
            value = dict(value)
        fields[option.field] = list(value) if isinstance(value, tuple) else value
    return fields
