"""The gateway's SQL: where a model name leads, and the log's rows."""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields
from typing import TYPE_CHECKING, Any

from sqlalchemy import and_, bindparam, func, insert, select, update

from steelyard.hall.errors import SteelyardError
from steelyard.hub.db.errors import ConstraintViolated
from steelyard.hub.db.tables import (
    deployments,
    embedding_identities,
    gateway_requests,
    project_bindings,
    projects,
    routes,
    runtimes,
)
from steelyard.hub.gateway.domain.entries import Ended, LoggedRequest, Started
from steelyard.hub.gateway.domain.targets import Deployment, Identity, Lead, Runtime

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime
    from uuid import UUID

    from sqlalchemy import Connection, Row

    from steelyard.hub.db.database import Database
    from steelyard.hub.gateway.domain.entries import Entry


class RowGone(SteelyardError):
    """A call that ended has no started row in the log."""

    code = "row_gone"


@dataclass(frozen=True)
class ClientRoute:
    """One usable route of a client, as a model."""

    slug: str
    created_at: datetime
    project: str


# The stable route has no deployment of its own: it leads to the binding's.
_deployment_of_route = func.coalesce(routes.c.deployment_id, project_bindings.c.current_deployment_id)
_FIND_LEAD = (
    select(
        project_bindings.c.is_active.label("is_binding_active"),
        routes.c.id.label("route_id"),
        routes.c.is_active.label("is_route_active"),
        deployments.c.id.label("deployment_id"),
        deployments.c.slug,
        deployments.c.capability,
        deployments.c.is_active,
        deployments.c.served_model,
        deployments.c.allows_truncation,
        runtimes.c.id.label("runtime_id"),
        runtimes.c.base_url,
        runtimes.c.on_overlong,
        runtimes.c.key_variable,
        runtimes.c.timeout_s,
        embedding_identities.c.dimension,
        embedding_identities.c.max_length,
        embedding_identities.c.query_prompt,
        embedding_identities.c.document_prompt,
    )
    .select_from(
        project_bindings.outerjoin(
            routes, and_(routes.c.project_binding_id == project_bindings.c.id, routes.c.slug == bindparam("slug"))
        )
        .outerjoin(deployments, deployments.c.id == _deployment_of_route)
        .outerjoin(runtimes, runtimes.c.id == deployments.c.runtime_id)
        .outerjoin(embedding_identities, embedding_identities.c.id == deployments.c.embedding_identity_id)
    )
    .where(project_bindings.c.id == bindparam("binding"))
)
_LIST_ROUTES = (
    select(routes.c.slug, routes.c.created_at, projects.c.slug.label("project"))
    .select_from(
        routes.join(project_bindings, project_bindings.c.id == routes.c.project_binding_id)
        .join(projects, projects.c.id == project_bindings.c.project_id)
        .join(deployments, deployments.c.id == _deployment_of_route)
    )
    .where(
        project_bindings.c.id == bindparam("binding"),
        and_(project_bindings.c.is_active, routes.c.is_active, deployments.c.is_active),
    )
    .order_by(routes.c.kind.desc(), routes.c.slug)
)
_START = insert(gateway_requests)
_END = (
    update(gateway_requests)
    .where(gateway_requests.c.request_id == bindparam("of_request"), gateway_requests.c.status == "started")
    .values({name: bindparam(name) for name in (
        "status", "completed_at", "latency_ms", "tokens", "is_truncated", "error_code")})
)  # fmt: skip


def find_lead(database: Database, *, binding_id: UUID, slug: str) -> Lead | None:
    """Return how far the route *slug* of a binding leads, or None where there is no such binding."""
    with database.read() as connection:
        row = connection.execute(_FIND_LEAD, {"binding": binding_id, "slug": slug}).one_or_none()
    return None if row is None else _lead(row)


def list_routes(database: Database, *, binding_id: UUID) -> list[ClientRoute]:
    """Return the routes of a binding that lead to an active deployment: the stable one first, then by name."""
    with database.read() as connection:
        return [ClientRoute(*row) for row in connection.execute(_LIST_ROUTES, {"binding": binding_id})]


def page_of_requests(
    connection: Connection,
    *,
    limit: int,
    offset: int,
    started_since: datetime | None = None,
    started_until: datetime | None = None,
    **where: object,
) -> list[LoggedRequest]:
    """Return *limit* rows after *offset*, newest first, and one more where there is one."""
    query = select(*(gateway_requests.c[field.name] for field in fields(LoggedRequest))).filter_by(**where)
    if started_since is not None:
        query = query.where(gateway_requests.c.started_at >= started_since)
    if started_until is not None:
        query = query.where(gateway_requests.c.started_at < started_until)
    rows = connection.execute(query.order_by(gateway_requests.c.id.desc()).limit(limit + 1).offset(offset))
    return [LoggedRequest(**row._mapping) for row in rows]


def commit(database: Database, entries: Sequence[Entry]) -> None:
    """Commit *entries* in one transaction, at one time of the database's clock; raises RowGone and the store's errors.

    The rows are written in the order of their ids, whichever process writes them, so no two wait for each other.
    """
    with database.write() as connection:
        now = database.now(connection)
        _start(connection, [entry for entry in entries if isinstance(entry, Started)], now)
        _end(connection, [entry for entry in entries if isinstance(entry, Ended)], now)


def is_about_a_row(error: BaseException) -> bool:
    """Tell whether *error* of `commit` lies in one entry, so that the others could be committed without it."""
    return isinstance(error, ConstraintViolated | RowGone)


def _start(connection: Connection, entries: list[Started], now: datetime) -> None:
    if entries:
        rows = [asdict(entry) | {"started_at": now, "status": "started"} for entry in entries]
        connection.execute(_START, sorted(rows, key=lambda row: row["request_id"]))


def _end(connection: Connection, entries: list[Ended], now: datetime) -> None:
    if not entries:
        return
    changes: list[dict[str, Any]] = [
        {
            "of_request": entry.request_id,
            "status": entry.status,
            "completed_at": now,
            "latency_ms": entry.latency_ms,
            "tokens": entry.tokens,
            "is_truncated": entry.is_truncated,
            "error_code": entry.error_code,
        }
        for entry in entries
    ]
    changed = connection.execute(_END, sorted(changes, key=lambda change: str(change["of_request"])))
    if changed.rowcount != len(entries):
        raise RowGone


def _lead(row: Row[*tuple[Any, ...]]) -> Lead:
    return Lead(
        is_binding_active=row.is_binding_active,
        route_id=row.route_id,
        is_route_active=row.is_route_active,
        deployment=None if row.deployment_id is None else _deployment(row),
    )


def _deployment(row: Row[*tuple[Any, ...]]) -> Deployment:
    return Deployment(
        id=row.deployment_id,
        slug=row.slug,
        capability=row.capability,
        is_active=row.is_active,
        served_model=row.served_model,
        allows_truncation=row.allows_truncation,
        runtime=Runtime(
            id=row.runtime_id,
            base_url=row.base_url,
            on_overlong=row.on_overlong,
            key_variable=row.key_variable,
            timeout_s=row.timeout_s,
        ),
        identity=Identity(
            dimension=row.dimension,
            max_length=row.max_length,
            query_prompt=row.query_prompt,
            document_prompt=row.document_prompt,
        ),
    )
