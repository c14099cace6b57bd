"""`steelyard hub apply`: a declarative file, shown as a plan before anything is done."""

from __future__ import annotations

import sys
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from steelyard.hall.texts import shorten
from steelyard.hub.remote.errors import BadFile, ToldRefusal, WrongUse
from steelyard.hub.remote.faults import as_lines, checked, dotted
from steelyard.hub.remote.session import asking, refusals, url_option

if TYPE_CHECKING:
    from steelyard.client import Thing

_SCHEMA = "steelyard.hub.declare.schemas:Document"
_WIDEST = 100
_SIGNS = {"create": "+", "change": "~", "refused": "!"}


def _apply(*, path: Path, is_dry_run: bool, is_agreed: bool, url: str | None) -> None:
    """Make the hub have what a file says, all of it or nothing.

    The plan is printed first: + is created, ~ is changed, = is there already, ! is refused. What the file leaves out
    stays as it is, and nothing is ever deleted. On a terminal it asks before it begins; elsewhere it needs --yes.

    Exit code: 0 done, or nothing to do, or a dry run; 1 refused, and nothing was done; 2 wrong use or a wrong file.
    """
    with refusals():
        document = read_document(path)
    with asking(url) as client:
        plan = client.apply(document, dry_run=True)
        _print_plan(plan)
        if is_dry_run or not _has_to_do(plan):
            return
        if not is_agreed:
            _ask()
        client.apply(document, dry_run=False, plan_digest=plan["plan_digest"])
    click.echo("Done.", err=True)


apply = click.Command(
    "apply",
    callback=_apply,
    help=_apply.__doc__,
    short_help="Make the hub have what a file says.",
    params=[
        click.Option(
            ["-f", "--file", "path"], required=True, type=click.Path(path_type=Path), help="The file, in TOML."
        ),
        click.Option(["--dry-run", "is_dry_run"], is_flag=True, help="Print the plan and do nothing."),
        click.Option(["--yes", "is_agreed"], is_flag=True, help="Do not ask."),
        url_option,
    ],
)


def read_document(path: Path) -> dict[str, Any]:
    """Return the file's document as JSON values; raises BadFile with the place of each fault."""
    try:
        parsed = tomllib.loads(path.read_text(encoding="utf-8-sig"))
    except OSError as error:
        raise BadFile(f"{path} cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise BadFile(f"{path} is not UTF-8") from error
    except tomllib.TOMLDecodeError as error:
        raise BadFile(f"{path} is no TOML: {error}") from error
    except (ValueError, RecursionError) as error:  # tomllib lets these through.
        raise BadFile(f"{path} is nested too deeply, or holds a number of thousands of digits") from error
    return _checked(parsed, path=path)


def _checked(parsed: dict[str, Any], *, path: Path) -> dict[str, Any]:
    document, faults = checked(_SCHEMA, parsed)
    if document is None:
        raise BadFile(f"{path} is no document for the hub:{as_lines([f'{dotted(at)}: {rule}' for at, rule in faults])}")
    dumped: dict[str, Any] = document.model_dump(mode="json", exclude_unset=True)
    return dumped


def _print_plan(plan: Thing) -> None:
    for step in plan["steps"]:
        if step["action"] in _SIGNS:
            click.echo(f"{_SIGNS[step['action']]} {step['kind']} {step['place']}{_details(step)}")
    unchanged = sum(step["action"] == "unchanged" for step in plan["steps"])
    click.echo(f"= {unchanged} unchanged")


def _details(step: Thing) -> str:
    if step["reason"]:
        return f": {step['reason']}"
    if step["action"] == "create":
        values = [f"{change['name']}={_value(change['after'])}" for change in step["changes"]]
        return f": {' '.join(values)}" if values else ""
    moves = [f"{change['name']} {_value(change['before'])} → {_value(change['after'])}" for change in step["changes"]]
    return f": {', '.join(moves)}"


def _value(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, dict):
        return f"{{{', '.join(value)}}}"
    return "none" if value is None else shorten(str(value), limit=_WIDEST)


def _has_to_do(plan: Thing) -> bool:
    """Tell whether anything is left to do; raises ToldRefusal where a step is refused."""
    actions = {step["action"] for step in plan["steps"]}
    if "refused" in actions:
        raise ToldRefusal("Nothing was done, since the steps marked ! are refused")
    if not actions & {"create", "change"}:
        click.echo("Nothing to do.", err=True)
        return False
    return True


def _ask() -> None:
    if not sys.stdin.isatty():
        raise WrongUse("This is no terminal, so nobody can be asked: add --yes, or look first with --dry-run")
    if not click.confirm("Do this?"):
        raise ToldRefusal("Nothing was done")
