"""The suites' rows. Every function works inside the caller's transaction; a revision's rows are never changed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sqlalchemy import func, select

from steelyard.hub.db.errors import UniqueViolated
from steelyard.hub.db.locks import locked
from steelyard.hub.db.tables import suite_cases, suite_revisions, suites
from steelyard.hub.errors import SlugTaken, UnknownReference, UnknownThing
from steelyard.hub.suites.domain import Case, Review, Suite, SuiteRevision

if TYPE_CHECKING:
    from collections.abc import Sequence
    from uuid import UUID

    from sqlalchemy import Connection, Row


def insert_suite(connection: Connection, suite: Suite) -> None:
    """Add a suite; raises SlugTaken."""
    try:
        with connection.begin_nested():
            connection.execute(suites.insert().values(**vars(suite)))
    except UniqueViolated as error:
        raise SlugTaken from error


def get_suite(connection: Connection, suite_id: UUID, *, lock: bool = False) -> Suite:
    """Return one suite, its row locked where asked; raises UnknownThing."""
    query = select(suites).where(suites.c.id == suite_id)
    row = connection.execute(locked(query) if lock else query).first()
    if row is None:
        raise UnknownThing("No suite has this id")
    return Suite(**row._mapping)


def find_suites(connection: Connection, **where: object) -> list[Suite]:
    """Return every suite whose columns have these values, in the order in which they were made."""
    query = select(suites).filter_by(**where).order_by(suites.c.created_at, suites.c.id)
    return [Suite(**row._mapping) for row in connection.execute(query)]


def page_of_suites(connection: Connection, *, limit: int, offset: int, **where: object) -> list[Suite]:
    """Return *limit* suites after *offset*, newest first, and one more where there is one."""
    query = select(suites).filter_by(**where).order_by(suites.c.created_at.desc(), suites.c.id.desc())
    return [Suite(**row._mapping) for row in connection.execute(query.limit(limit + 1).offset(offset))]


def insert_revision(connection: Connection, revision: SuiteRevision, *, cases: Sequence[Case]) -> None:
    """Add a revision with its cases."""
    connection.execute(suite_revisions.insert().values(**vars(revision)))
    connection.execute(
        suite_cases.insert(),
        [_row(case, position=position, revision_id=revision.id) for position, case in enumerate(cases)],
    )


def get_revision(connection: Connection, revision_id: UUID) -> SuiteRevision:
    """Return one revision; raises UnknownThing."""
    row = connection.execute(select(suite_revisions).where(suite_revisions.c.id == revision_id)).first()
    if row is None:
        raise UnknownThing("No suite revision has this id")
    return SuiteRevision(**row._mapping)


def refer_revision(connection: Connection, revision_id: UUID) -> SuiteRevision:
    """Return the revision that another thing names; raises UnknownReference."""
    try:
        return get_revision(connection, revision_id)
    except UnknownThing as error:
        raise UnknownReference("No suite revision has the id that was sent for it") from error


def cases_of(connection: Connection, revision_id: UUID) -> list[Case]:
    """Return all of a revision's cases, in its order."""
    query = select(suite_cases).filter_by(suite_revision_id=revision_id).order_by(suite_cases.c.position)
    return [_case(row) for row in connection.execute(query)]


def revision_with(connection: Connection, suite_id: UUID, *, digest: str) -> SuiteRevision | None:
    """Return the suite's revision with this content, or None."""
    row = connection.execute(select(suite_revisions).filter_by(suite_id=suite_id, digest=digest)).first()
    return SuiteRevision(**row._mapping) if row else None


def last_number(connection: Connection, suite_id: UUID) -> int:
    """Return the number of a suite's newest revision, 0 where it has none."""
    query = select(func.max(suite_revisions.c.number)).where(suite_revisions.c.suite_id == suite_id)
    return connection.execute(query).scalar() or 0


def page_of_revisions(connection: Connection, *, limit: int, offset: int, **where: object) -> list[SuiteRevision]:
    """Return *limit* revisions after *offset*, newest first, and one more where there is one."""
    query = select(suite_revisions).filter_by(**where).order_by(suite_revisions.c.number.desc())
    return [SuiteRevision(**row._mapping) for row in connection.execute(query.limit(limit + 1).offset(offset))]


def page_of_cases(connection: Connection, revision_id: UUID, *, limit: int, offset: int) -> list[Case]:
    """Return *limit* of a revision's cases after *offset*, in its order, and one more where there is one."""
    query = select(suite_cases).filter_by(suite_revision_id=revision_id).order_by(suite_cases.c.position)
    return [_case(row) for row in connection.execute(query.limit(limit + 1).offset(offset))]


def _row(case: Case, *, position: int, revision_id: UUID) -> dict[str, Any]:
    return {
        "suite_revision_id": revision_id,
        "case_id": case.case_id,
        "position": position,
        "query": case.query,
        "labels": case.labels,
        "is_critical": case.critical,
        "reviewer": case.review.reviewer,
        "reviewed_at": case.review.reviewed_at,
        "label_provenance": case.label_provenance,
    }


def _case(row: Row[Any]) -> Case:
    return Case(
        case_id=row.case_id,
        query=row.query,
        labels=row.labels,
        critical=row.is_critical,
        review=Review(reviewer=row.reviewer, reviewed_at=row.reviewed_at),
        label_provenance=row.label_provenance,
    )
