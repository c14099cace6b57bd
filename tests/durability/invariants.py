"""What must be true of a database however the hub that wrote it ended, held against what clients know."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from datetime import datetime
from typing import TYPE_CHECKING, Any
from uuid import UUID

from sqlalchemy import func, select

from steelyard.hall.canonical import canonical_json, sha256_of_json
from steelyard.hub.audit.domain import FIELDS
from steelyard.hub.db import tables
from steelyard.hub.db.check import check
from steelyard.hub.suites import store as suites
from steelyard.hub.suites.domain import MOST_CASES, Content

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from sqlalchemy import Connection, Row, Table
    from tests.durability.ledger import Changed, Embedded, Ledger

    from steelyard.hub.db.database import Database

TABLE_OF: Mapping[str, Table] = {
    "Project": tables.projects,
    "ProjectBinding": tables.project_bindings,
    "ServiceClient": tables.service_clients,
    "Credential": tables.credentials,
    "Artifact": tables.artifacts,
    "Runtime": tables.runtimes,
    "EmbeddingIdentity": tables.embedding_identities,
    "Deployment": tables.deployments,
    "Route": tables.routes,
    "Suite": tables.suites,
    "SuiteRevision": tables.suite_revisions,
}


def require_whole(database: Database, ledger: Ledger) -> None:
    """Check everything, in one state of the database; *ledger* may grow meanwhile, if only by older answers."""
    findings = [finding for finding in check(database) if not finding.is_good]
    assert not findings, findings
    embedded, changed = list(ledger.embedded), list(ledger.changed)
    with database.read() as connection:
        _require_one_epoch(connection)
        _require_rows_of_answers(connection, embedded)
        _require_truth_of_rows(connection, ledger)
        _require_audit(connection)
        _require_changes(connection, changed)
        _require_stable_routes(connection)
        _require_pointers(connection, changed)
        _require_whole_revisions(connection)


def _require_one_epoch(connection: Connection) -> None:
    """A crash is no restore."""
    assert connection.scalar(select(func.count()).select_from(tables.store_epochs)) == 1


def _require_rows_of_answers(connection: Connection, embedded: Sequence[Embedded]) -> None:
    rows = {row.request_id: row for row in connection.execute(select(tables.gateway_requests))}
    for answer in embedded:
        row = rows.get(answer.request_id)
        assert row is not None, f"answered without a row: {answer}"
        assert row.input_sha256 == sha256_of_json(answer.texts), answer
        assert row.input_count == len(answer.texts), answer
        expected = ("completed", answer.tokens) if answer.status == 200 else ("failed", None)
        assert (row.status, row.tokens) == expected, f"{answer} has the row {row}"
        assert row.error_code == answer.code, f"{answer} has the row {row}"


def _require_truth_of_rows(connection: Connection, ledger: Ledger) -> None:
    """Rows of requests that nobody heard the end of are started, or ended as the embedding server says."""
    rows = {row.request_id: row for row in connection.execute(select(tables.gateway_requests))}
    for request_id, texts in list(ledger.asked.items()):
        assert request_id in rows, f"asked without a row: {request_id}"
        assert rows[request_id].input_sha256 == sha256_of_json(texts)
    for row in rows.values():
        if row.status == "completed":
            assert row.request_id in ledger.replied, f"completed without an answer: {row}"
        if row.status == "failed":
            assert row.request_id not in ledger.replied, f"failed though it was answered: {row}"


def _require_audit(connection: Connection) -> None:
    """Every thing is what its audit events say, from the first to the last, and every event has its thing."""
    events: dict[str, dict[str, list[Row[Any]]]] = defaultdict(lambda: defaultdict(list))
    for event in connection.execute(select(tables.audit_events).order_by(tables.audit_events.c.id)):
        events[event.subject_kind][event.subject_id].append(event)
    assert set(events) <= set(TABLE_OF), set(events)
    for kind, table in TABLE_OF.items():
        things = {str(row.id): row for row in connection.execute(select(table))}
        assert set(things) == set(events[kind]), f"{kind}: {set(things) ^ set(events[kind])}"
        for thing_id, history in events[kind].items():
            states = [None, *(event.after for event in history)]
            assert [event.before for event in history] == states[:-1], f"{kind} {thing_id}: {history}"
            assert states[-1] == _kept_of(kind, things[thing_id]), f"{kind} {thing_id}: {history}"


def _kept_of(kind: str, row: Row[Any]) -> Any:
    """Return what the audit trail keeps of *row*, read from the row and not from the domain."""
    return json.loads(canonical_json({name: _plain(row._mapping[name]) for name in FIELDS[kind]}))


def _plain(value: object) -> object:
    if isinstance(value, datetime):
        return value.isoformat()
    return str(value) if isinstance(value, UUID) else value


def _require_changes(connection: Connection, changed: Sequence[Changed]) -> None:
    """Each change that was answered is there, with its audit events: one for each step of a document."""
    audited = Counter(connection.scalars(select(tables.audit_events.c.request_id)))
    for change in changed:
        if change.status in (200, 201):
            least = len(change.content["steps"]) if change.path == "/apply" else 1
            assert audited[change.request_id] >= least, f"answered without an event: {change}"
    applied = {change.request_id: change for change in changed if change.path == "/apply"}
    _require_whole_documents(connection, applied)


def _require_whole_documents(connection: Connection, applied: Mapping[str, Changed]) -> None:
    """A document that nobody heard of is there whole too: as many events as one that was answered."""
    if not applied:
        return
    events = tables.audit_events.c
    suites_by_request = select(events.request_id).where(events.subject_kind == "Suite")
    whole = Counter(connection.scalars(select(events.request_id)))
    answered = {whole[request_id] for request_id in applied}
    assert len(answered) == 1, answered
    for request_id in connection.scalars(suites_by_request.where(events.project_id.is_not(None))):
        assert whole[request_id] in {1, *answered}, f"{request_id}: {whole[request_id]} events"


def _require_stable_routes(connection: Connection) -> None:
    bindings = sorted(connection.scalars(select(tables.project_bindings.c.id)))
    routes = select(tables.routes.c.project_binding_id).where(tables.routes.c.kind == "stable")
    assert sorted(connection.scalars(routes)) == bindings


def _require_pointers(connection: Connection, changed: Sequence[Changed]) -> None:
    """A pointer is never behind what was answered, and leads to an active production deployment."""
    bindings, deployments = tables.project_bindings, tables.deployments
    rows = {str(row.id): row for row in connection.execute(select(bindings))}
    for change in changed:
        if change.path.endswith("/current-deployment") and change.status == 200:
            assert rows[change.content["id"]].version >= change.content["version"], change
    astray = (
        select(bindings.c.id)
        .join(deployments, deployments.c.id == bindings.c.current_deployment_id)
        .where((deployments.c.stage != "production") | (deployments.c.project_id != bindings.c.project_id))
    )
    assert not connection.scalars(astray).all()


def _require_whole_revisions(connection: Connection) -> None:
    for revision in connection.scalars(select(tables.suite_revisions.c.id)).all():
        stored = suites.get_revision(connection, revision)
        cases = suites.page_of_cases(connection, revision, limit=MOST_CASES, offset=0)
        assert len(cases) == stored.case_count, stored
        content = Content(retrieval_settings=stored.retrieval_settings, cases=tuple(cases))
        assert content.digest == stored.digest, stored
