"""The real service on SQLite against a model of a page, under every course of calls that Hypothesis thinks of."""

from __future__ import annotations

import shutil
import tempfile
import uuid
from contextlib import closing
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)
from sqlalchemy import func, select

from steelyard.hall.digests import sha256_of_text
from steelyard.hub.catalog.service import Catalog
from steelyard.hub.comparisons.domain.protocol import DEADLINE, LEASE, call_digest
from steelyard.hub.comparisons.publication import publish
from steelyard.hub.comparisons.schemas import NewComparison, NewResult
from steelyard.hub.comparisons.service import interrupt_all
from steelyard.hub.comparisons.transactions import reconcile_expired, settled
from steelyard.hub.db import tables
from steelyard.hub.db.database import Database
from steelyard.hub.principal import LOCAL, Actor

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.comparing import Stage

    from steelyard.hub.comparisons.domain.comparison import Intent
    from steelyard.hub.comparisons.service import Comparisons, Outcome

US = timedelta(microseconds=1)
SELDOM = st.sampled_from([False, False, False, False, True])  # Else most courses would soon have little to do.
START = datetime(2027, 1, 1, tzinfo=UTC)
SOMEBODY = Actor(role="operator", name="somebody", request_id=None)
ACTIVE = ("pending", "running", "cancel_requested")
CASES = 2
RULE = {"margin": 0.05, "minimum_cases": 30, "candidate_error_rate_limit": 0.0}
ACTION_OF = {
    "pending": "comparison.create",
    "running": "comparison.claim",
    "cancel_requested": "comparison.request_cancel",
    "cancelled": "comparison.cancel",
    "completed": "comparison.complete",
    "failed": "comparison.fail",
    "interrupted": "comparison.interrupt",
}


class Clock:
    def __init__(self) -> None:
        self.now = START

    def __call__(self) -> datetime:
        return self.now


@dataclass(frozen=True)
class World:
    """A database that is copied for each course, and what is in it."""

    path: Path
    stage: Stage
    clients: list[str]
    spare: str


@dataclass
class Kept:
    """What the model knows of one comparison."""

    id: uuid.UUID
    key: str
    client: int
    index: str
    status: str = "pending"
    version: int = 1
    counts: tuple[int, int] = (0, 0)
    claimed_at: datetime | None = None
    lease: datetime | None = None
    deadline: datetime | None = None
    token: str | None = None
    is_token_kept: bool = False
    accepted_cancels: set[int] = field(default_factory=set)
    closed_by: object = None
    error: str | None = None
    history: list[str] = field(default_factory=lambda: ["pending"])

    @property
    def is_active(self) -> bool:
        return self.status in ACTIVE

    def become(self, status: str, error: str | None = None) -> None:
        self.status, self.error, self.version = status, error, self.version + 1
        self.history.append(status)

    def has_expired(self, now: datetime) -> bool:
        if self.status not in ACTIVE[1:] or self.lease is None or self.deadline is None:
            return False
        return now >= min(self.lease, self.deadline)

    def reconcile(self, now: datetime) -> None:
        if self.has_expired(now):
            self.become("interrupted", "COMPARISON_CLAIM_EXPIRED")

    @property
    def code_of_end(self) -> str:
        return str(self.error) if self.status == "interrupted" else "COMPARISON_ENDED"


@dataclass(frozen=True)
class Embedded:
    """One request for each case and leg, all made by one client at one time."""

    client: int
    at: datetime
    ids: dict[str, dict[str, str]]


class Machine(RuleBasedStateMachine):
    """Each rule asks the model what must come of a call, calls, and compares."""

    def __init__(self, world: World) -> None:
        super().__init__()
        self.world = world
        self.folder = Path(tempfile.mkdtemp(dir=world.path.parent))
        shutil.copyfile(world.path, self.folder / "hub.db")
        self.clock = Clock()
        self.database = Database(f"sqlite:///{self.folder / 'hub.db'}", clock=self.clock)
        self.kept: list[Kept] = []
        self.embedded: list[Embedded] = []
        self.used: set[int] = set()
        self.sent: dict[uuid.UUID, list[tuple[dict[str, Any], int, str | None]]] = {}
        self.is_open = {"pointer": True, "route": True, "binding": True}
        self.live = [True, True]
        self.versions = {"binding": 2, "route": 1}
        self.last: Callable[[], None] | None = None
        self.before: dict[uuid.UUID, Any] = {}
        self.evidence_before: dict[str, set[str]] = {}

    def teardown(self) -> None:
        with self.database.read() as connection:
            assert connection.exec_driver_sql("PRAGMA foreign_key_check").all() == []
        self.database.close()
        shutil.rmtree(self.folder)

    # What the model says.

    def is_drifted(self, client: int) -> bool:
        return not (all(self.is_open.values()) and self.live[client])

    def chosen(self, back: int) -> Kept:
        return self.kept[-1 - back % len(self.kept)]

    def told(self, act: Callable[[Comparisons], Outcome], code: str | None) -> Any:
        outcome = settled(self.database, SOMEBODY, act)
        self.require(outcome, code)
        return outcome

    @staticmethod
    def require(outcome: Outcome, code: str | None) -> None:
        assert (outcome.refusal.code if outcome.refusal else None) == code, (outcome, code)

    def held(self, kept: Kept, token: str, closing: object) -> tuple[bool, str | None]:
        """Return whether a consumer's call may go on, and else its code, None for an accepted repeat."""
        kept.reconcile(self.clock.now)
        is_right = kept.is_token_kept and token == kept.token
        if not kept.is_active:
            is_repeat = is_right and closing is not None and closing == kept.closed_by
            return False, None if is_repeat else kept.code_of_end
        return (True, None) if is_right else (False, "WRONG_CLAIM_TOKEN")

    def token(self, kept: Kept, whose: str) -> str:
        others = [other.token for other in self.kept if other is not kept and other.token]
        return {"own": kept.token or "none", "other": (others or ["none"])[-1], "wrong": "wrong"}[whose]

    # What an operator does.

    @rule(key=st.integers(0, 5), client=st.integers(0, 1), index=st.sampled_from(["one", "one", "two"]))
    def create(self, key: int, client: int, index: str) -> None:
        self.again(lambda: self._create(f"key-000{key}", client, index))

    @precondition(lambda self: not any(kept.is_active and not kept.has_expired(self.clock.now) for kept in self.kept))
    @rule(client=st.integers(0, 1), is_claimed=st.sampled_from([True, True, False]))
    def create_with_a_new_key(self, client: int, is_claimed: bool) -> None:
        """Bring the course to where most can happen."""
        if not self.is_drifted(client):
            self._create(f"key-new-{len(self.kept)}", client, "one")
            if is_claimed:
                self._claim(0)

    def _create(self, key: str, client: int, index: str) -> None:
        intent = self.intent(client, index)
        made = next((kept for kept in self.kept if kept.key == key), None)
        code = None
        if made is not None:
            if (made.client, made.index) == (client, index):
                made.reconcile(self.clock.now)
            else:
                code = "IDEMPOTENCY_KEY_REUSED"
        else:
            for kept in self.kept:
                kept.reconcile(self.clock.now)
            if self.is_drifted(client):
                code = "NOT_ELIGIBLE"
            elif any(kept.is_active for kept in self.kept):
                code = "COMPARISON_ACTIVE"
        outcome = self.told(lambda comparisons: comparisons.create(intent, key=key, rule=RULE), code)
        assert outcome.is_new is (code is None and made is None)
        if outcome.is_new:
            self.kept.append(Kept(outcome.comparison.id, key, client, index))
            self.sent[outcome.comparison.id] = []
        elif code is None:
            assert made is not None
            assert outcome.comparison.id == made.id

    def intent(self, client: int, index: str) -> Intent:
        fields = {"consumer_client_id": self.world.clients[client], "candidate_index_ref": index}
        return NewComparison(**self.world.stage.body(**fields)).intent()

    @precondition(lambda self: self.kept)
    @rule(back=st.sampled_from([0, 0, 0, 1]), difference=st.sampled_from([0, 0, 0, -1, -2, 1]))
    def cancel(self, back: int, difference: int) -> None:
        version = self.chosen(back).version + difference
        self.again(lambda: self._cancel(back, version))

    @precondition(lambda self: self.kept and self.kept[-1].status == "running")
    @rule(is_meant=st.booleans())
    def ask_to_stop(self, is_meant: bool) -> None:
        if is_meant:
            self._cancel(0, self.kept[-1].version)

    def _cancel(self, back: int, version: int) -> None:
        kept = self.chosen(back)
        kept.reconcile(self.clock.now)
        code = None
        if version in kept.accepted_cancels:
            pass
        elif not kept.is_active:
            code = kept.code_of_end
        elif kept.version != version:
            code = "VERSION_CONFLICT"
        elif kept.status == "pending":
            kept.become("cancelled")
            kept.accepted_cancels = {version}
        else:
            kept.become("cancel_requested")
            kept.accepted_cancels = {version, version + 1}
        self.told(lambda comparisons: comparisons.cancel(kept.id, expected_version=version), code)

    # What its consumer does.

    @precondition(lambda self: self.kept)
    @rule(back=st.sampled_from([0, 0, 0, 1]))
    def claim(self, back: int) -> None:
        self.again(lambda: self._claim(back))

    def _claim(self, back: int) -> None:
        kept, now = self.chosen(back), self.clock.now
        kept.reconcile(now)
        code = None
        if not kept.is_active:
            code = kept.code_of_end
        elif kept.status != "pending":
            code = "COMPARISON_CLAIM_TAKEN"
        elif self.is_drifted(kept.client):
            code = "COMPARISON_TARGET_CHANGED"
            kept.become("interrupted", code)
        else:
            kept.become("running")
            kept.claimed_at, kept.lease, kept.deadline = now, now + LEASE, now + DEADLINE
            kept.is_token_kept = True
        outcome, token = settled(self.database, SOMEBODY, lambda comparisons: comparisons.claim(kept.id))
        self.require(outcome, code)
        if code is None:
            kept.token = token

    @precondition(lambda self: self.kept)
    @rule(
        back=st.sampled_from([0, 0, 0, 1]),
        whose=st.sampled_from(["own", "own", "own", "other", "wrong"]),
        current=st.integers(0, CASES + 1),
        candidate=st.integers(0, CASES),
    )
    def progress(self, back: int, whose: str, current: int, candidate: int) -> None:
        self.again(lambda: self._progress(back, whose, current, candidate))

    def _progress(self, back: int, whose: str, current: int, candidate: int) -> None:
        kept = self.chosen(back)
        token = self.token(kept, whose)
        may_go_on, code = self.held(kept, token, None)
        if may_go_on:
            if current < kept.counts[0] or candidate < kept.counts[1]:
                code = "COMPARISON_COUNTS_FELL"
            elif max(current, candidate) > CASES:
                code = "INVALID_REQUEST"
            else:
                kept.counts, kept.lease = (current, candidate), self.clock.now + LEASE
        self.told(
            lambda comparisons: comparisons.progress(kept.id, token=token, current=current, candidate=candidate), code
        )

    @precondition(lambda self: self.kept)
    @rule(
        back=st.sampled_from([0, 0, 0, 1]),
        whose=st.sampled_from(["own", "own", "own", "other", "wrong"]),
        outcome=st.sampled_from(["failed", "cancelled", "cancelled"]),
        error_code=st.sampled_from([None, "ONE", "TWO"]),
    )
    def finish(self, back: int, whose: str, outcome: Any, error_code: str | None) -> None:
        self.again(lambda: self._finish(back, whose, outcome, error_code if outcome == "failed" else None))

    @precondition(lambda self: self.kept and self.kept[-1].status == "cancel_requested")
    @rule(outcome=st.sampled_from(["failed", "cancelled", "cancelled"]))
    def stop(self, outcome: Any) -> None:
        self.again(lambda: self._finish(0, "own", outcome, None))

    def _finish(self, back: int, whose: str, outcome: Any, error_code: str | None) -> None:
        kept = self.chosen(back)
        token, closing = self.token(kept, whose), ("finish", outcome, error_code)
        may_go_on, code = self.held(kept, token, closing)
        if may_go_on:
            if outcome == "cancelled" and kept.status != "cancel_requested":
                code = "COMPARISON_CANCEL_NOT_REQUESTED"
            else:
                kept.become(outcome, error_code)
                kept.closed_by = closing
        sha256 = call_digest("finish", {"outcome": outcome, "error_code": error_code})
        self.told(
            lambda comparisons: comparisons.finish(
                kept.id, token=token, sha256=sha256, outcome=outcome, error_code=error_code
            ),
            code,
        )

    @precondition(lambda self: self.kept and self.kept[-1].status == "running")
    @rule(flaw=st.sampled_from([None, None, "failed", "missing"]), is_repeated=st.booleans())
    def embed_and_send_a_result(self, flaw: str | None, is_repeated: bool) -> None:
        self.embed(self.kept[-1].client)
        result = self._result(0, len(self.embedded) - 1, flaw, "ab" * 32)
        self.again(lambda: self._send(0, "own", *result))
        if is_repeated:
            self.call_again()

    @rule(client=st.integers(0, 1))
    def embed_a_set(self, client: int) -> None:
        self.embed(client)

    def embed(self, client: int) -> None:
        stage = replace(self.world.stage, asked=self)  # type: ignore[arg-type]  # It is asked for its database alone.
        fields = {"service_client_id": uuid.UUID(self.world.clients[client])}
        ids = {
            leg: dict(
                zip(
                    [case["case_id"] for case in stage.cases],
                    stage.embed(leg, [case["query"] for case in stage.cases], **fields),
                    strict=True,
                )
            )
            for leg in ("current", "candidate")
        }
        self.embedded.append(Embedded(client=client, at=self.clock.now, ids=ids))

    @precondition(lambda self: self.kept and self.embedded)
    @rule(
        back=st.sampled_from([0, 0, 0, 1]),
        whose=st.sampled_from(["own", "own", "own", "other", "wrong"]),
        requests=st.sampled_from([0, 0, 0, 1, 2]),
        flaw=st.sampled_from([None, None, None, "failed", "failed", "pins", "missing", "case", "twice"]),
        revision=st.sampled_from(["ab" * 32, "cd" * 32]),
    )
    def result(self, back: int, whose: str, requests: int, flaw: str | None, revision: str) -> None:
        number = len(self.embedded) - 1 - requests % len(self.embedded)
        self.again(lambda: self._send(back, whose, *self._result(back, number, flaw, revision)))

    @precondition(lambda self: self.kept and self.sent[self.kept[-1].id])
    @rule(back=st.integers(0, 2), whose=st.sampled_from(["own", "own", "wrong"]))
    def send_a_result_again(self, back: int, whose: str) -> None:
        sent = self.sent[self.kept[-1].id]
        self._send(0, whose, *sent[-1 - back % len(sent)])

    def _result(self, back: int, number: int, flaw: str | None, revision: str) -> tuple:
        """Return a result's body without its token, the requests that it rests on, and the code of its flaw."""
        ids = {leg: dict(found) for leg, found in self.embedded[number].ids.items()}
        candidate = self.world.stage.leg()
        first = self.world.stage.cases[0]["case_id"]
        code, rests_on = None, number
        if flaw == "failed":
            candidate["results"] = [
                {**result, "ranked_results": [], "error_code": "TIMEOUT"} for result in candidate["results"]
            ]
            ids["candidate"] = {}
        elif flaw == "missing":
            del ids["current"][first]
            code = "EVIDENCE_MISSING"
        elif flaw == "case":
            del candidate["results"][0]
            code = "CASES_MISMATCH"
        elif flaw == "twice":
            ids["candidate"][first] = ids["current"][first]
            code = "EVIDENCE_REUSED"
        pins_digest = "0" * 64 if flaw == "pins" else self.pins_digest(self.chosen(back))
        body = {
            "pins_digest": pins_digest,
            "consumer_revision_sha256": revision,
            "current": self.world.stage.leg(),
            "candidate": candidate,
            "current_gateway_requests": ids["current"],
            "candidate_gateway_requests": ids["candidate"],
        }
        return body, rests_on, code

    def pins_digest(self, kept: Kept) -> str:
        return str(self.row(kept.id).pins_digest)

    def _send(self, back: int, whose: str, body: dict[str, Any], number: int, flaw: str | None) -> None:
        kept = self.chosen(back)
        token = self.token(kept, whose)
        self.sent[kept.id].append((body, number, flaw))
        may_go_on, code = self.held(kept, token, ("result", repr(body)))
        if may_go_on:
            has_pins = body["pins_digest"] == self.pins_digest(kept)  # It may be another's result, sent again.
            code = self.fault(kept, number, flaw, has_pins=has_pins)
            if code == "COMPARISON_TARGET_CHANGED":
                kept.become("interrupted", code)
            elif code is None:
                kept.become("completed")
                kept.counts, kept.closed_by = (CASES, CASES), ("result", repr(body))
                self.used.add(number)
        reported = NewResult(claim_token=token, **body).reported()
        self.require(publish(self.database, kept.id, reported, actor=SOMEBODY), code)

    def fault(self, kept: Kept, number: int, flaw: str | None, *, has_pins: bool) -> str | None:
        """Return the code with which the holder's result is refused."""
        embedded = self.embedded[number]
        assert kept.claimed_at is not None
        faults = {
            "COMPARISON_CANCEL_REQUESTED": kept.status == "cancel_requested",
            "COMPARISON_PINS_MISMATCH": not has_pins,
            "COMPARISON_TARGET_CHANGED": self.is_drifted(kept.client),
            "CASES_MISMATCH": flaw == "CASES_MISMATCH",
            "EVIDENCE_MISSING": flaw == "EVIDENCE_MISSING",
            "EVIDENCE_UNKNOWN": embedded.client != kept.client,
            "EVIDENCE_REUSED": flaw == "EVIDENCE_REUSED" or number in self.used,
            "EVIDENCE_OUTSIDE_CLAIM": embedded.at < kept.claimed_at,
        }
        return next((code for code, is_so in faults.items() if is_so), None)

    # What happens by itself.

    @rule(passed=st.sampled_from([US, timedelta(seconds=1), timedelta(seconds=60), LEASE - US, LEASE, DEADLINE]))
    def wait(self, passed: timedelta) -> None:
        self.clock.now += passed

    @precondition(lambda self: self.kept and self.kept[-1].lease)
    @rule(edge=st.sampled_from(["lease", "lease", "deadline"]), difference=st.sampled_from([-1, 0, 0, 1]))
    def wait_until_the_edge(self, edge: str, difference: int) -> None:
        self.clock.now = max(self.clock.now, getattr(self.kept[-1], edge) + difference * US)

    @precondition(lambda self: self.kept and self.kept[-1].status in ACTIVE[1:])
    @rule(difference=st.sampled_from([-1, -1, 0]))
    def work_until_the_deadline(self, difference: int) -> None:
        """Report progress as long as it takes."""
        kept = self.kept[-1]
        assert kept.deadline is not None
        while kept.is_active and self.clock.now < kept.deadline + difference * US:
            self.clock.now = min(self.clock.now + LEASE - US, kept.deadline + difference * US)
            self._progress(0, "own", *kept.counts)

    @rule(what=st.sampled_from(["pointer", "route", "binding"]), is_meant=SELDOM)
    def change_the_target(self, what: str, is_meant: bool) -> None:
        if is_meant and self.is_open[what]:
            self.change(what)

    @precondition(lambda self: not all(self.is_open.values()))
    @rule()
    def change_the_target_back(self) -> None:
        for what, is_open in self.is_open.items():
            if not is_open:
                self.change(what)

    def change(self, what: str) -> None:
        ids, is_open = self.world.stage.ids, not self.is_open[what]
        with self.database.write() as connection:
            catalog = Catalog(connection, actor=LOCAL, now=self.clock.now)
            binding = uuid.UUID(ids["project_binding_id"])
            if what == "pointer":
                to = ids["current_deployment_id"] if is_open else self.world.spare
                catalog.set_current(binding, uuid.UUID(to), expected_version=self.versions["binding"])
            elif what == "binding":
                catalog.activate_binding(binding, is_active=is_open, expected_version=self.versions["binding"])
            else:
                route = uuid.UUID(ids["candidate_route_id"])
                catalog.activate_route(route, is_active=is_open, expected_version=self.versions["route"])
        self.versions["route" if what == "route" else "binding"] += 1
        self.is_open[what] = is_open

    @precondition(lambda self: all(self.live))
    @rule(client=st.integers(0, 1), is_meant=SELDOM)
    def revoke_a_client(self, client: int, is_meant: bool) -> None:
        if not is_meant:
            return
        with self.database.write() as connection:
            catalog = Catalog(connection, actor=LOCAL, now=self.clock.now)
            catalog.revoke_client(uuid.UUID(self.world.clients[client]), expected_version=1)
        self.live[client] = False

    @rule(is_meant=SELDOM)
    def restore(self, is_meant: bool) -> None:
        if not is_meant:
            return
        with self.database.write() as connection:
            interrupt_all(connection, self.clock.now)
        for kept in self.kept:
            kept.is_token_kept = False
            if kept.is_active:
                kept.become("interrupted", "COMPARISON_RESTORE_INTERRUPTED")

    @rule()
    def read(self) -> None:
        reconcile_expired(self.database)
        for kept in self.kept:
            kept.reconcile(self.clock.now)

    @precondition(lambda self: self.last)
    @rule()
    def call_again(self) -> None:
        assert self.last is not None
        self.last()

    @precondition(lambda self: self.last)
    @rule()
    def call_twice_again(self) -> None:
        self.call_again()
        self.call_again()

    def again(self, call: Callable[[], None]) -> None:
        """Call, and keep the call for another time."""
        self.last = call
        call()

    # What is always so.

    def row(self, comparison_id: uuid.UUID) -> Any:
        with self.database.read() as connection:
            return connection.execute(select(tables.comparisons).where(tables.comparisons.c.id == comparison_id)).one()

    @initialize()
    def begin(self) -> None:
        self.before = {}

    @invariant()
    def it_is_as_the_model_says(self) -> None:
        with self.database.read() as connection:
            rows = {row.id: row for row in connection.execute(select(tables.comparisons))}
            assert set(rows) == {kept.id for kept in self.kept}
            assert sum(row.ended_at is None for row in rows.values()) <= 1
            events = select(func.count()).where(tables.audit_events.c.subject_kind == "Comparison")
            assert connection.scalar(events) == sum(len(kept.history) for kept in self.kept)
            for kept in self.kept:
                self.require_row(rows[kept.id], kept)
                if rows[kept.id] != self.before.get(kept.id):
                    self.require_trail(connection, kept)
                    self.require_published(connection, kept)
            self.require_evidence(connection)
        self.before = rows

    def require_row(self, row: Any, kept: Kept) -> None:
        assert (row.status, row.version, row.error_code) == (kept.status, kept.version, kept.error)
        assert (row.current_completed_cases, row.candidate_completed_cases) == kept.counts
        assert (row.claimed_at, row.lease_expires_at, row.deadline_at) == (kept.claimed_at, kept.lease, kept.deadline)
        assert (row.ended_at is None) is kept.is_active
        expected = sha256_of_text(kept.token) if kept.is_token_kept and kept.token else None
        assert row.claim_token_sha256 == expected
        before = self.before.get(kept.id)
        if before is not None:
            assert row.version >= before.version
            own = {**before._mapping, "claim_token_sha256": row.claim_token_sha256}  # A restore clears it.
            assert row._mapping == own or before.ended_at is None, "what has ended never changes"
            assert row.version > before.version or row.status == before.status
            assert row.current_completed_cases >= before.current_completed_cases
            assert row.candidate_completed_cases >= before.candidate_completed_cases

    def require_trail(self, connection: Any, kept: Kept) -> None:
        query = select(tables.audit_events).where(tables.audit_events.c.subject_id == str(kept.id))
        events = connection.execute(query.order_by(tables.audit_events.c.id)).all()
        assert [event.action for event in events] == [ACTION_OF[status] for status in kept.history]
        states = [None, *(event.after for event in events)]
        assert [event.before for event in events] == states[:-1]
        assert [state["version"] for state in states[1:]] == list(range(1, len(events) + 1))
        by_itself = [event.actor for event in events if event.action == "comparison.interrupt"]
        assert set(by_itself) <= {"hub"}
        assert {event.actor for event in events if event.action != "comparison.interrupt"} == {"somebody"}
        assert kept.token is None or kept.token not in repr(events)
        assert not kept.token or sha256_of_text(kept.token) not in repr(events)

    def require_published(self, connection: Any, kept: Kept) -> None:
        runs = connection.execute(select(tables.evaluation_runs).filter_by(comparison_id=kept.id)).all()
        summaries = connection.execute(select(tables.evaluation_summaries).filter_by(comparison_id=kept.id)).all()
        if kept.status != "completed":
            assert (runs, summaries) == ([], [])
            return
        assert sorted(run.leg for run in runs) == ["candidate", "current"]
        assert len(summaries) == 1
        results = tables.evaluation_results
        for run in runs:
            found = connection.execute(select(results.c.case_id).filter_by(evaluation_run_id=run.id)).all()
            assert len(found) == CASES

    def require_evidence(self, connection: Any) -> None:
        """What was published stays as it was, and a request is evidence once."""
        now = {
            table.name: {repr(tuple(row)) for row in connection.execute(select(table))}
            for table in (
                tables.evaluation_runs,
                tables.evaluation_results,
                tables.evaluation_summaries,
                tables.evaluation_evidence,
            )
        }
        for name, rows in self.evidence_before.items():
            assert rows <= now[name]
        requests = connection.scalars(select(tables.evaluation_evidence.c.gateway_request_id)).all()
        assert len(set(requests)) == len(requests)
        self.evidence_before = now


@pytest.fixture(scope="module")
def world(tmp_path_factory, sqlite_databases) -> Iterator[World]:
    from tests.comparing import make_stage  # noqa: PLC0415  # The engines' tests need no hub.
    from tests.hub_api import Asked, deploy  # noqa: PLC0415

    with sqlite_databases.fresh() as url, closing(Database(url)) as database:
        asked = Asked(database)
        stage = make_stage(asked, cases=CASES)
        binding = stage.ids["project_binding_id"]
        second = stage.operator.make("/service-clients", project_binding_id=binding, slug="second", name="Second")
        [first_part] = stage.operator.get("/artifacts", project_id=stage.ids["project_id"]).json()["items"]
        [runtime] = stage.operator.get("/runtimes", project_id=stage.ids["project_id"]).json()["items"]
        [identity] = stage.operator.get("/embedding-identities", project_id=stage.ids["project_id"]).json()["items"]
        spare = deploy(stage.operator, first_part, runtime, identity, slug="spare", stage="production")
        asked.close()
        database.close()
        folder = tmp_path_factory.mktemp("machine")
        shutil.copyfile(database.path, folder / "template.db")
        yield World(
            path=folder / "template.db",
            stage=stage,
            clients=[stage.ids["consumer_client_id"], second["id"]],
            spare=spare["id"],
        )


def run(world: World, *, courses: int, steps: int) -> None:
    run_state_machine_as_test(
        lambda: Machine(world),  # type: ignore[arg-type]  # It is only called.
        settings=settings(
            max_examples=courses,
            stateful_step_count=steps,
            deadline=None,
            suppress_health_check=list(HealthCheck),
        ),
    )


@pytest.mark.timeout(1200)  # A course that fails is made short first.
def test_no_course_of_calls_breaks_the_protocol(world):
    run(world, courses=50, steps=50)


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_no_long_course_of_calls_breaks_the_protocol(world):
    run(world, courses=800, steps=80)
