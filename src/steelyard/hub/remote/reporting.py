"""`steelyard hub comparisons report | unjudged`: what a comparison found, and what of it nobody has judged yet."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from steelyard.hub.remote.errors import BadFile, ToldRefusal
from steelyard.hub.remote.naming import Names
from steelyard.hub.remote.nouns import BY_NAME
from steelyard.hub.remote.session import asking, refusals, url_option

if TYPE_CHECKING:
    from steelyard.client import HubClient, Thing

EXIT_NOT_ELIGIBLE = 3
_NOUN = BY_NAME["comparisons"]
# Those of reports.formats, which loads a template engine.
_FORMATS = ("text", "markdown", "json", "html")


def _report(
    *, comparison_id: str, report_format: str, path: Path | None, must_be_eligible: bool, url: str | None
) -> None:
    """Tell what the comparison with this ID found.

    The verdict and its reasons come first, then critical regressions, metrics, the cases that changed most, latency,
    errors, and what exactly was compared. Of a comparison without a result it says how far it came, why it ended and
    what to do. Equal data give an equal report, byte for byte.

    Exit code: 0 whatever the verdict; with --fail-unless-eligible 3 unless it is `eligible`; 1 where the hub says no.
    """
    from steelyard.hub.reports.formats import FORMATS  # noqa: PLC0415  # It loads the template engine.
    from steelyard.hub.reports.reading import report_of  # noqa: PLC0415  # It is needed here alone.

    with asking(url) as client:
        comparison = _comparison(client, comparison_id)
        told = report_of(comparison, _cases(client, comparison))
    _write(FORMATS[report_format](told), path)
    if must_be_eligible and not told.is_eligible:
        click.echo("The candidate is not eligible.", err=True)
        sys.exit(EXIT_NOT_ELIGIBLE)


def _unjudged(*, comparison_id: str, path: Path | None, url: str | None, **_only: str) -> None:
    """List the results that counted and that no reviewer has labelled, as JSON lines for a reviewer.

    One line for each chunk of a case, in the suite's order: {"case_id", "query", "chunk_id", "document_id", "ranks":
    {leg: rank}}. Only results within the suite revision's top_k count. Labels go into the suite's next revision.
    """
    from steelyard.hub.reports.unjudged import unjudged_of  # noqa: PLC0415  # It is needed here alone.

    with asking(url) as client:
        comparison = _comparison(client, comparison_id)
        if comparison["evaluation_summary"] is None:
            raise ToldRefusal(f"The comparison is {comparison['status']} and has no results")
        top_k = client.get("suite-revisions", comparison["suite_revision_id"])["retrieval_settings"]["top_k"]
        found = list(unjudged_of(_cases(client, comparison), top_k=top_k))
    _write("".join(f"{json.dumps(entry)}\n" for entry in found), path)
    click.echo(f"{len(found)} to judge.", err=True)


def _comparison(client: HubClient, comparison_id: str) -> Thing:
    """Return the comparison; raises NotNamed for what is no id."""
    return client.get(_NOUN.collection, Names(client).id_of(_NOUN, comparison_id))


def _cases(client: HubClient, comparison: Thing) -> list[Thing]:
    """Return the cases with what both legs gave, in the suite's order; none where there is no result."""
    if comparison["evaluation_summary"] is None:
        return []
    return list(client.all(f"{_NOUN.collection}/{comparison['id']}/cases"))


def _write(text: str, path: Path | None) -> None:
    if path is None:
        click.echo(text, nl=False)
        return
    with refusals():
        try:
            path.write_text(text, encoding="utf-8", newline="\n")
        except OSError as error:
            raise BadFile(f"{path} cannot be written: {error.strerror}") from error


_ID = click.Argument(["comparison_id"], metavar="ID")
_OUTPUT = click.Option(
    ["-o", "--output", "path"],
    type=click.Path(path_type=Path, dir_okay=False),
    help="Write this file, over what it holds, instead of standard output.",
)

report = click.Command(
    "report",
    callback=_report,
    help=_report.__doc__,
    params=[
        _ID,
        click.Option(
            ["--format", "report_format"],
            type=click.Choice(_FORMATS),
            default=_FORMATS[0],
            show_default=True,
            help="html is one file with plots that needs nothing else; json has exact numbers.",
        ),
        _OUTPUT,
        click.Option(
            ["--fail-unless-eligible", "must_be_eligible"],
            is_flag=True,
            help=f"End with {EXIT_NOT_ELIGIBLE} unless the candidate came out as eligible, for scripts.",
        ),
        url_option,
    ],
)
unjudged = click.Command(
    "unjudged",
    callback=_unjudged,
    help=_unjudged.__doc__,
    params=[
        _ID,
        click.Option(["--format", "lines"], type=click.Choice(["jsonl"]), default="jsonl", help="JSON lines."),
        _OUTPUT,
        url_option,
    ],
)
