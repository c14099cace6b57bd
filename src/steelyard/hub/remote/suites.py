"""`steelyard hub suites import | revisions | cases`: what suites have beside the table's commands."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from steelyard.hub.remote.cases import read_json_object, read_revision
from steelyard.hub.remote.errors import NotNamed, WrongUse
from steelyard.hub.remote.naming import Names
from steelyard.hub.remote.nouns import BY_NAME
from steelyard.hub.remote.printing import print_page, print_thing
from steelyard.hub.remote.session import asking, refusals, url_option

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from steelyard.client import HubClient, Thing

_SHARED: list[click.Parameter] = [
    click.Option(["--project"], help="The suite's project, where several have a suite of this name."),
    url_option,
    click.Option(["--json", "as_json"], is_flag=True, help="Print JSON."),
]
_PAGED: list[click.Parameter] = [
    click.Option(["--limit"], type=click.INT, default=50, show_default=True, help="Most items to print."),
    click.Option(["--offset"], type=click.INT, default=0, help="Items to leave out."),
]
_REVISION_COLUMNS = ("number", "id", "case_count", "digest", "created_at")
_CASE_COLUMNS = ("case_id", "critical", "query", "labels")


def _import(*, name: str, path: Path, top_k: int | None, settings_path: Path | None, **where: Any) -> None:
    """Import reviewed cases as the next revision of the suite NAME.

    FILE has one case a line: {"case_id", "query", "labels": {chunk id: grade}, "critical", "review": {"reviewer",
    "reviewed_at"}, "label_provenance": {"corpus_revision"}}. Every fault is told at once, by its line, before anything
    is written. The same content again is the same revision.
    """
    with refusals():
        content = read_revision(path, settings=_settings(top_k, settings_path))
    with asking(where["url"]) as client:
        answer = client.import_revision(_suite_id(client, name, where["project"]), content)
    if not where["as_json"]:
        number = answer.value["number"]
        click.echo(f"Imported revision {number}." if answer.is_new else f"This is revision {number} already.", err=True)
    print_thing(answer.value, as_json=where["as_json"])


def _settings(top_k: int | None, path: Path | None) -> dict[str, Any]:
    if (top_k is None) == (path is None):
        raise WrongUse("Say how many results count: either --top-k N, or --settings FILE with top_k in it")
    return {"top_k": top_k} if path is None else read_json_object(path)


def _revisions(*, name: str, **where: Any) -> None:
    """List the revisions of the suite NAME, newest first."""
    with asking(where["url"]) as client:
        suite_id = _suite_id(client, name, where["project"])
        _print_page(client, f"suites/{suite_id}/revisions", columns=_REVISION_COLUMNS, where=where)


def _cases(*, name: str, number: int | None, **where: Any) -> None:
    """List the cases of a revision of the suite NAME, the newest unless --number says which."""
    with asking(where["url"]) as client:
        revision = revision_of(client, _suite_id(client, name, where["project"]), number)
        _print_page(client, f"suite-revisions/{revision['id']}/cases", columns=_CASE_COLUMNS, where=where)


def _print_page(client: HubClient, path: str, *, columns: Sequence[str], where: Mapping[str, Any]) -> None:
    page = client.page(path, limit=where["limit"], offset=where["offset"])
    print_page(page, columns=columns, as_json=where["as_json"])


def _suite_id(client: HubClient, name: str, project: str | None) -> str:
    return Names(client, project).id_of(BY_NAME["suites"], name)


def revision_of(client: HubClient, suite_id: str, number: int | None) -> Thing:
    """Return a suite's newest revision, or the one of this *number*; raises NotNamed."""
    for revision in client.all(f"suites/{suite_id}/revisions"):
        if number in (None, revision["number"]):
            return revision
    raise NotNamed("The suite has no such revision" if number else "The suite has no revision yet")


_FILE = click.Path(path_type=Path)
SUITE_COMMANDS = {
    "import": click.Command(
        "import",
        callback=_import,
        help=_import.__doc__,
        params=[
            click.Argument(["name"]),
            click.Argument(["path"], metavar="FILE", type=_FILE),
            click.Option(["--top-k"], type=click.INT, help="How many results count."),
            click.Option(["--settings", "settings_path"], type=_FILE, help="All retrieval settings, a JSON file."),
            *_SHARED,
        ],
    ),
    "revisions": click.Command(
        "revisions", callback=_revisions, help=_revisions.__doc__, params=[click.Argument(["name"]), *_SHARED, *_PAGED]
    ),
    "cases": click.Command(
        "cases",
        callback=_cases,
        help=_cases.__doc__,
        params=[
            click.Argument(["name"]),
            click.Option(["--number"], type=click.INT, help="The revision's number."),
            *_SHARED,
            *_PAGED,
        ],
    ),
}
