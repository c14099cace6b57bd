"""Reading a suite's cases from JSON lines; every fault is told at once with the number of its line."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from steelyard.hub.remote.errors import BadFile
from steelyard.hub.remote.faults import as_lines, checked, dotted

if TYPE_CHECKING:
    from pathlib import Path

    from steelyard.hub.remote.faults import Place

_SCHEMA = "steelyard.hub.suites.schemas:NewSuiteRevision"


@dataclass(frozen=True)
class CaseLines:
    """The cases of a file, the number of each one's line, and what is wrong with the lines that are no JSON."""

    cases: list[Any] = field(default_factory=list)
    numbers: list[int] = field(default_factory=list)
    faults: list[tuple[int, str]] = field(default_factory=list)

    def placed(self, place: Place, rule: str) -> tuple[int, str]:
        """Return the line of a fault whose place begins with the case's, and what it says."""
        where = dotted(place[1:])
        return self.numbers[int(place[0])], f"{where}: {rule}" if where else rule


def read_revision(path: Path, *, settings: dict[str, Any]) -> dict[str, Any]:
    """Return what an import sends, checked by the rules that the hub checks it by; raises BadFile."""
    lines = read_lines(path)
    _, broken = checked(_SCHEMA, {"retrieval_settings": settings, "cases": lines.cases})
    faults = lines.faults + [_placed(place, rule, lines) for place, rule in broken]
    if faults:
        raise BadFile(f"{path} was not imported:{as_lines([_told(line, rule) for line, rule in sorted(faults)])}")
    return {"retrieval_settings": settings, "cases": lines.cases}


def read_lines(path: Path) -> CaseLines:
    """Return the cases of a file, not checked yet; raises BadFile where it is no text."""
    lines = CaseLines()
    for number, line in enumerate(_text(path).split("\n"), start=1):  # Other line ends may stand inside a text.
        if not line.strip():
            continue
        try:
            lines.cases.append(json.loads(line, object_pairs_hook=_without_repeats))
            lines.numbers.append(number)
        except (ValueError, RecursionError) as error:
            lines.faults.append((number, f"no JSON: {error}"))
    return lines


def read_json_object(path: Path) -> dict[str, Any]:
    """Return the object in a JSON file; raises BadFile."""
    try:
        value = json.loads(_text(path), object_pairs_hook=_without_repeats)
    except (ValueError, RecursionError) as error:
        raise BadFile(f"{path} is no JSON: {error}") from error
    if not isinstance(value, dict):
        raise BadFile(f"{path} holds no JSON object")
    return value


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise BadFile(f"{path} cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise BadFile(f"{path} is not UTF-8: byte {error.start} is invalid") from error


def _without_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    names = [name for name, _ in pairs]
    if len(set(names)) < len(names):
        repeated = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"{json.dumps(repeated)} stands twice in one object")
    return dict(pairs)


def _placed(place: Place, rule: str, lines: CaseLines) -> tuple[int, str]:
    """Return the fault's line, 0 where it is in no line, and what it says."""
    if place[0] == "cases" and len(place) > 1:
        return lines.placed(place[1:], rule)
    return 0, f"{dotted(place)}: {rule}"


def _told(line: int, rule: str) -> str:
    return f"line {line}: {rule}" if line else rule
