"""The calibration table: one temperature per workload."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from steelyard.decide.domain.arithmetic import softmax
from steelyard.decide.domain.errors import InvalidRequest
from steelyard.hall.texts import shorten

if TYPE_CHECKING:
    from collections.abc import Mapping

    from steelyard.decide.domain.results import Result

COLDEST, HOTTEST = 0.05, 20.0


def parse_table(text: str) -> dict[str, float]:
    """Return the temperatures by workload in the JSON object *text*; raises ValueError that says what is wrong."""
    try:
        # As floats, integers of any length can be compared; Python refuses to read one of thousands of digits.
        table = json.loads(text, object_pairs_hook=_without_repeats, parse_int=float)
    except json.JSONDecodeError as error:
        raise ValueError(f"is not JSON: {error}") from None
    except RecursionError:
        raise ValueError("is nested too deep for a table of workloads and temperatures") from None
    if not isinstance(table, dict):
        raise ValueError('must be a JSON object such as {"triage": 1.3}')  # noqa: TRY004  # One kind of refusal.
    return {_workload(name): _temperature(name, value) for name, value in table.items()}


def _without_repeats(pairs: list[tuple[str, object]]) -> dict[str, object]:
    table = dict(pairs)
    if len(table) != len(pairs):
        names = [name for name, _ in pairs]
        repeated = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"repeats the key {shorten(repeated)!r}")
    return table


def _workload(name: str) -> str:
    try:
        name.encode("utf-8")
    except UnicodeEncodeError:
        raise ValueError(f"names a workload with a lone surrogate, {shorten(name)!r}") from None
    return name


def _temperature(workload: str, value: object) -> float:
    # NaN and infinity are out of the range too.
    if not (isinstance(value, float) and COLDEST <= value <= HOTTEST):
        raise ValueError(
            f"gives {shorten(workload)!r} a temperature that is not a number from {COLDEST} to {HOTTEST:g}"
        )
    return value


def parse_workload(value: object, *, table: Mapping[str, float]) -> str | None:
    """Return the workload that *value* names, None where null; raises InvalidRequest for one not in *table*."""
    if value is None:
        return None
    if not isinstance(value, str) or value not in table:
        known = ", ".join(sorted(table)) or "none is configured"
        raise InvalidRequest(f"Unknown workload; known workloads: {shorten(known, limit=200)}")
    return value


def calibrate(result: Result, *, workload: str, temperature: float) -> Result:
    """Return *result* with `calibrated` added; what the scorer gave stays as it is."""
    probabilities = softmax(result["option_logits"], temperature=temperature)  # type: ignore[arg-type]  # A list of floats.
    calibrated = {"workload": workload, "temperature": temperature, "probabilities": probabilities}
    return {**result, "calibrated": calibrated}
