"""The files of cases that a declarative file names: read into the document, with each fault told by file and line."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from steelyard.hub.remote.cases import CaseLines, read_lines
from steelyard.hub.remote.errors import BadFile
from steelyard.hub.remote.faults import dotted

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from steelyard.hub.remote.faults import Place


@dataclass(frozen=True)
class CasesFile:
    """What a file of cases holds; *place* is where the document names it."""

    place: Place
    name: str
    lines: CaseLines


def read_cases_of(document: dict[str, Any], *, folder: Path) -> list[CasesFile]:
    """Put the cases of each file that *document* names, relative to *folder*, in the name's stead.

    Raises BadFile with every file that cannot be read.
    """
    files, unread = [], []
    for place, revision in _revisions(document):
        name = revision["cases"]
        try:
            lines = read_lines(folder / name)
        except (BadFile, ValueError) as error:  # No path has a NUL.
            unread.append(f"{dotted(place)}: {error}")
            continue
        files.append(CasesFile(place, name, lines))
        revision["cases"] = lines.cases
    if unread:
        raise BadFile("\n".join(unread))
    return files


def told_faults(faults: list[tuple[Place, str]], files: list[CasesFile]) -> list[str]:
    """Return each fault with its place: in a file of cases its line, elsewhere the names that lead to it."""
    told = [_told(place, rule, files) for place, rule in faults]
    told += [(file.name, line, rule) for file in files for line, rule in file.lines.faults]
    return [f"{name} line {line}: {rule}" if line else f"{name}: {rule}" for name, line, rule in sorted(set(told))]


def _told(place: Place, rule: str, files: list[CasesFile]) -> tuple[str, int, str]:
    for file in files:
        depth = len(file.place)
        if place[:depth] == file.place and len(place) > depth:
            return (file.name, *file.lines.placed(place[depth:], rule))
    return dotted(place), 0, rule


def _revisions(document: dict[str, Any]) -> Iterator[tuple[Place, dict[str, Any]]]:
    """Give each revision that names a file, and where its name stands; what has another form is left to the schema."""
    for project, part in _tables(document, "projects"):
        for suite, fields in _tables(part, "suites"):
            revision = fields.get("revision")
            if isinstance(revision, dict) and isinstance(revision.get("cases"), str):
                yield ("projects", project, "suites", suite, "revision", "cases"), revision


def _tables(table: dict[str, Any], name: str) -> list[tuple[str, dict[str, Any]]]:
    inner = table.get(name)
    items = inner.items() if isinstance(inner, dict) else ()
    return [(key, value) for key, value in items if isinstance(value, dict)]
