"""Writes the parts of docs/ that follow from the code, between `<!-- generated: NAME -->` and `<!-- end -->`.

With --check it writes nothing and fails where a part is out of date.
"""

from __future__ import annotations

import argparse
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from prometheus_client.parser import text_string_to_metric_families

from steelyard.decide.api import errors as decide_errors
from steelyard.decide.metrics import Metrics as DecideMetrics
from steelyard.decide.settings import SETTINGS as DECIDE_SETTINGS
from steelyard.embed.api import errors as embed_errors
from steelyard.embed.metrics import Metrics as EmbedMetrics
from steelyard.embed.settings import SETTINGS as EMBED_SETTINGS
from steelyard.hall.errors import SteelyardError
from steelyard.hub.credentials.guard import TooMany
from steelyard.hub.db.commands import STORE_EXIT_CODES
from steelyard.hub.db.errors import StoreError
from steelyard.hub.errors import HubError
from steelyard.hub.gateway.api import STATUS_OF as GATEWAY_STATUS_OF
from steelyard.hub.gateway.domain.errors import GatewayError
from steelyard.hub.metrics import Metrics as HubMetrics
from steelyard.hub.reports.words import CODES, STATUSES
from steelyard.hub.rest.problems import TITLE_OF, Unforeseen, status_of
from steelyard.hub.settings import TABLE as HUB_SETTINGS
from steelyard.models.catalogue import CATALOGUE
from steelyard.models.progress import readable_size
from steelyard.shell.refusals import EXIT_FAILED
from steelyard.web.errors import RequestRefused

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from steelyard.hall.settings import SettingsTable

Error = TypeVar("Error", bound=SteelyardError)
DOCS = Path(__file__).parent
PART = re.compile(r"(<!-- generated: (\w+) -->\n).*?(<!-- end -->)", re.DOTALL)


def settings(table: SettingsTable) -> str:
    """Return the table of a room's settings."""
    rows = [
        (f"`{variable}`", f"`{s.flag}`" if s.has_flag else "none", s.shown_default, s.meaning)
        for variable, s in table.by_variable.items()
    ]
    return _table(("variable", "flag", "default", "meaning"), rows)


def errors(status_of: Mapping[type[Error], int]) -> str:
    """Return the table of a room's error answers; those of the shared plumbing are any room's."""
    refusals = [(e.status, e.code, e.__doc__ or "") for e in RequestRefused.__subclasses__()]
    failures = [(status, error.code, error.__doc__ or "") for error, status in status_of.items()]
    rows = [(str(status), f"`{code}`", _first_line(text)) for status, code, text in sorted({*refusals, *failures})]
    return _table(("status", "code", "message, where none says more"), rows)


def metrics(rendered: bytes) -> str:
    """Return the table of the metrics in *rendered*, a room's answer to GET /metrics."""
    every = text_string_to_metric_families(rendered.decode("utf-8"))
    families = [family for family in every if not family.name.endswith("_created")]
    return _table(("metric", "kind", "meaning"), [(_series(f.name, f.type), f.type, f.documentation) for f in families])


def weights() -> str:
    """Return the table of weights that can be pulled."""
    rows = [
        (
            f"`{model.name}`",
            model.kind.value,
            f"`{file.file_name}`",
            readable_size(file.size_bytes),
            file.licence,
            file.hub_repository or "none known",
            f"`{file.sha256}`",
        )
        for model in CATALOGUE
        for file in model.files
    ]
    return _table(("name", "kind", "file", "size", "licence", "official repository", "SHA-256"), rows)


def store() -> str:
    """Return the table of what the hub's store refuses and how it fails."""
    rows = [
        (
            f"`{kind.code}`",
            str(next((code for base, code in STORE_EXIT_CODES.items() if issubclass(kind, base)), EXIT_FAILED)),
            _first_line(kind.__doc__ or ""),
        )
        for kind in kinds_below(StoreError)
    ]
    return _table(("code", "exit code", "message, where none says more"), rows)


def gateway_errors() -> str:
    """Return the table of the gateway's error answers."""
    kinds = [kind for kind in kinds_below(GatewayError) if "code" in vars(kind)]
    return errors({kind: _gateway_status(kind) for kind in kinds})


def meanings(of: Mapping[str, str], *, name: str, other: str) -> str:
    """Return the table of what a comparison's states or codes mean; *other* stands for those not known by name."""
    rows = [(f"`{word}`" if word else other, meaning) for word, meaning in of.items()]
    return _table((name, "meaning"), [row for row in rows if row[0]])


def hub_errors() -> str:
    """Return the table of the hub's problems."""
    kinds: list[type[SteelyardError]] = [*kinds_below(HubError), *kinds_below(StoreError), Unforeseen]
    problems = [(_status(kind), kind.code.upper(), _first_line(kind.__doc__ or "")) for kind in kinds]
    refused: list[type[RequestRefused]] = [*RequestRefused.__subclasses__(), TooMany]
    problems += [(kind.status, kind.code.upper(), _first_line(kind.__doc__ or "")) for kind in refused]
    rows = [(f"{status} {TITLE_OF[status]}", f"`{code}`", text) for status, code, text in sorted(problems) if status]
    return _table(("status", "code", "message, where none says more"), rows)


def _status(kind: type[SteelyardError]) -> int:
    """Return the status of a problem; 0 for what no request meets."""
    return 500 if kind is Unforeseen else status_of(kind.__new__(kind)) or 0


def kinds_below(kind: type[Error]) -> list[type[Error]]:
    """Return every class below *kind*, in the order of their definition."""
    return [found for child in kind.__subclasses__() for found in (child, *kinds_below(child))]


def _gateway_status(kind: type[GatewayError]) -> int:
    return next(GATEWAY_STATUS_OF[parent] for parent in kind.__mro__ if parent in GATEWAY_STATUS_OF)


PARTS: Mapping[str, Callable[[], str]] = {
    "settings": lambda: settings(DECIDE_SETTINGS),
    "errors": lambda: errors(decide_errors.STATUS_OF),
    "metrics": lambda: metrics(DecideMetrics(queue_depth=lambda: 0, running_seconds=lambda: 0).render()),
    "weights": weights,
    "embed_settings": lambda: settings(EMBED_SETTINGS),
    "embed_errors": lambda: errors(embed_errors.STATUS_OF),
    "embed_metrics": lambda: metrics(
        EmbedMetrics(queue_depth=lambda: 0, waiting_rows=lambda: 0, running_seconds=lambda: 0).render()
    ),
    "hub_settings": lambda: settings(HUB_SETTINGS),
    "hub_errors": hub_errors,
    "hub_metrics": lambda: metrics(HubMetrics(in_progress=lambda: 0).render()),
    "store": store,
    "gateway_errors": gateway_errors,
    "comparison_states": lambda: meanings(STATUSES, name="state", other=""),
    "comparison_codes": lambda: meanings(CODES, name="error code", other="another"),
}


def main() -> None:
    """Write or check every page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing; fail where a page is out of date")
    is_check = parser.parse_args().check
    stale = [page for page in sorted(DOCS.rglob("*.md")) if _refresh(page, is_check=is_check)]
    if is_check and stale:
        sys.exit(f"out of date: {', '.join(page.name for page in stale)}; run: make docs")


def _refresh(page: Path, *, is_check: bool) -> bool:
    """Bring *page* up to date unless this is a check; tell whether it was stale."""
    before = page.read_text(encoding="utf-8")
    after = PART.sub(lambda match: f"{match[1]}{PARTS[match[2]]()}{match[3]}", before)
    if not is_check:
        page.write_text(after, encoding="utf-8")
    return before != after


def _table(head: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> str:
    lines = [head, tuple("---" for _ in head), *rows]
    return "".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |\n" for line in lines)


def _series(name: str, kind: str) -> str:
    """Return the name under which a query finds the metric."""
    return f"`{name}_total`" if kind == "counter" else f"`{name}`"


def _first_line(text: str) -> str:
    return text.strip().partition("\n")[0]


if __name__ == "__main__":
    main()
