"""`steelyard hub apply`: a declarative file, shown as a plan before anything is done."""

from __future__ import annotations

import json
import sys
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from steelyard.hall.texts import plural, shorten
from steelyard.hub.remote.declared import read_cases_of, told_faults
from steelyard.hub.remote.errors import BadFile, ToldRefusal, WrongUse
from steelyard.hub.remote.faults import as_lines, checked
from steelyard.hub.remote.session import asking, refusals, url_option

if TYPE_CHECKING:
    from steelyard.client import Thing
    from steelyard.hub.remote.declared import CasesFile

_SCHEMA = "steelyard.hub.declare.schemas:Document"
_WIDEST = 100
_DIGEST = 12
_AROUND_BYTES = 1024  # More than a request has around its document.
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
    return _checked(parsed, read_cases_of(parsed, folder=path.parent), path=path)


def _checked(parsed: dict[str, Any], files: list[CasesFile], *, path: Path) -> dict[str, Any]:
    document, broken = checked(_SCHEMA, parsed)
    faults = told_faults(broken, files)
    if document is None or faults:
        raise BadFile(f"{path} is no document for the hub:{as_lines(faults)}")
    dumped: dict[str, Any] = document.model_dump(mode="json", exclude_unset=True)
    _check_size(dumped, path=path)
    return dumped


def _check_size(document: dict[str, Any], *, path: Path) -> None:
    """Raise BadFile where the request would be larger than a hub takes."""
    from steelyard.hub.rest.bodies import MOST_BODY_BYTES  # noqa: PLC0415  # It needs the extra `hub`.

    size_bytes = len(json.dumps(document, ensure_ascii=False, separators=(",", ":")).encode()) + _AROUND_BYTES
    if size_bytes > MOST_BODY_BYTES:
        raise BadFile(
            f"{path} with its cases makes a request of {size_bytes} bytes, and the hub takes {MOST_BODY_BYTES}: apply "
            "it in parts"
        )


def _print_plan(plan: Thing) -> None:
    for step in plan["steps"]:
        if step["action"] in _SIGNS:
            click.echo(f"{_SIGNS[step['action']]} {_kind(step)} {step['place']}{_details(step)}")
        elif step["reason"]:
            click.echo(f"= {_kind(step)} {step['place']}: {step['reason']}")
    unchanged = sum(step["action"] == "unchanged" for step in plan["steps"])
    click.echo(f"= {unchanged} unchanged")


def _kind(step: Thing) -> str:
    return str(step["kind"]).replace("_", " ")


def _details(step: Thing) -> str:
    if step["reason"]:
        return f": {step['reason']}"
    if step["kind"] == "suite_revision":
        return f": {_revision({change['name']: change['after'] for change in step['changes']})}"
    if step["action"] == "create":
        values = [f"{change['name']}={_value(change['after'])}" for change in step["changes"]]
        return f": {' '.join(values)}" if values else ""
    moves = [f"{change['name']} {_value(change['before'])} → {_value(change['after'])}" for change in step["changes"]]
    return f": {', '.join(moves)}"


def _revision(fields: dict[str, Any]) -> str:
    count = fields["case_count"]
    settings = [f"{shorten(name)}={_value(value)}" for name, value in fields["retrieval_settings"].items()]
    return ", ".join([plural(count, "case"), *settings, f"digest {fields['digest'][:_DIGEST]}…"])


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
