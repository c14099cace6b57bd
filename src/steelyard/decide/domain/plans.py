"""From a request's JSON to the rows to score, and from the scorer's results to the answer.

A plan is what one request asks for, checked. It knows no HTTP and no engine.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING

from steelyard.decide.domain.calibration import calibrate, parse_workload
from steelyard.decide.domain.errors import InvalidRequest
from steelyard.decide.domain.orderings import Decision, combine, expand, parse_method
from steelyard.decide.domain.rows import parse_row
from steelyard.hall.texts import shorten

if TYPE_CHECKING:
    from collections.abc import Sequence

    from steelyard.decide.domain.results import Result
    from steelyard.decide.domain.rows import Row


@dataclass(frozen=True)
class Rules:
    """What the server allows: rows per request after expansion, and the temperature of each workload."""

    max_decisions: int
    temperatures: Mapping[str, float]


@dataclass(frozen=True)
class Plan:
    """The decisions of one request, and the workload whose temperature is wanted for all of them."""

    decisions: tuple[Decision, ...]
    workload: str | None = None

    @property
    def has_averaging(self) -> bool:
        """Tell whether any decision is averaged over orderings."""
        return any(decision.is_averaged for decision in self.decisions)


def plan_decide(body: object, *, rules: Rules) -> Plan:
    """Return the plan of a `/decide` body: one row, plus optional `workload` or `orderings`; raises InvalidRequest."""
    fields = _object(body, "The body")
    decision = _decision(fields, method=fields.get("orderings"))
    return _plan([decision], fields.get("workload"), rules)


def plan_shared(body: object, *, rules: Rules) -> Plan:
    """Return the plan of a `/decide/shared` body: `{state, decisions, workload?}`; raises InvalidRequest."""
    fields = _object(body, "The body")
    entries = fields.get("decisions")
    if not isinstance(entries, list) or not 1 <= len(entries) <= rules.max_decisions:
        raise InvalidRequest(f"decisions must be an array of 1 to {rules.max_decisions} objects")
    state = {"state": fields["state"]} if "state" in fields else {}
    decisions = []
    for position, entry in enumerate(entries):
        own = {k: v for k, v in _object(entry, f"decisions[{position}]").items() if k != "state"}
        decisions.append(_decision({**own, **state}, method=own.get("orderings"), state_is_checked=position > 0))
    return _plan(decisions, fields.get("workload"), rules)


def rows_of(plan: Plan) -> list[Row]:
    """Return every row to score, orderings expanded, in request order; raises InvalidRequest where two ids collide."""
    expansions = [expand(decision) for decision in plan.decisions]
    averaged = [rows for rows, decision in zip(expansions, plan.decisions, strict=True) if decision.is_averaged]
    expanded = {row.id for rows in averaged for row in rows}
    own = {decision.row.id for decision in plan.decisions}
    if len(own) != len(plan.decisions):  # The scorer would not see it where only one of two is averaged.
        raise InvalidRequest("Decision IDs must be unique")
    if expanded & own:
        raise InvalidRequest(f"Decision ID {shorten(min(expanded & own))!r} collides with an ordering's; rename it")
    return [row for rows in expansions for row in rows]


def answers_of(plan: Plan, results: Sequence[Result], *, rules: Rules) -> list[Result]:
    """Return one answer per decision, in request order, from the scorer's *results* for `rows_of(plan)`."""
    remaining = iter(results)
    answers = []
    for decision in plan.decisions:
        own = list(islice(remaining, decision.row_count))
        answer = combine(decision, own) if decision.is_averaged else own[0]
        if plan.workload is not None:
            temperature = rules.temperatures[plan.workload]
            answer = calibrate(answer, workload=plan.workload, temperature=temperature)
        answers.append(answer)
    return answers


def _object(value: object, name: str) -> Mapping[str, object]:
    if not isinstance(value, Mapping):
        raise InvalidRequest(f"{name} must be a JSON object")
    return value


def _decision(fields: Mapping[str, object], *, method: object, state_is_checked: bool = False) -> Decision:
    row = parse_row(fields, state_is_checked=state_is_checked)
    return Decision(row=row, method=parse_method(method, option_count=len(row.options)))


def _plan(decisions: Sequence[Decision], workload: object, rules: Rules) -> Plan:
    plan = Plan(decisions=tuple(decisions), workload=parse_workload(workload, table=rules.temperatures))
    if plan.workload is not None and plan.has_averaging:
        raise InvalidRequest('workload and orderings exclude each other; leave one out, or set orderings to "none"')
    count = sum(decision.row_count for decision in decisions)
    if count > rules.max_decisions:
        raise InvalidRequest(f"the request makes {count} rows, more than the limit of {rules.max_decisions}")
    return plan
