"""Making suites and importing their revisions, inside the caller's transaction."""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from steelyard.hub.audit import store as audit
from steelyard.hub.audit.domain import Change
from steelyard.hub.catalog import store as catalog
from steelyard.hub.catalog.domain import Project
from steelyard.hub.suites import store
from steelyard.hub.suites.domain import Content, Suite, SuiteRevision

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime
    from uuid import UUID

    from sqlalchemy import Connection

    from steelyard.hub.principal import Actor


@dataclass(frozen=True)
class Suites:
    """The suites inside one transaction, changed by one actor at one time."""

    connection: Connection
    actor: Actor
    now: datetime

    def create(self, fields: Mapping[str, Any]) -> Suite:
        """Add a suite without revisions; raises UnknownReference or SlugTaken."""
        catalog.refer(self.connection, Project, fields["project_id"])
        suite = Suite(id=uuid.uuid4(), created_at=self.now, **fields)
        store.insert_suite(self.connection, suite)
        self._record("suite.create", suite, project_id=suite.project_id)
        return suite

    def import_revision(self, suite_id: UUID, content: Content) -> tuple[SuiteRevision, bool]:
        """Return the suite's revision of this content and whether it is new; raises UnknownThing.

        The suite's row is locked first, so that of two imports at once the second sees the first one's revision.
        """
        suite = store.get_suite(self.connection, suite_id, lock=True)
        digest = content.digest
        present = store.revision_with(self.connection, suite_id, digest=digest)
        if present:
            return present, False
        revision = SuiteRevision(
            id=uuid.uuid4(),
            suite_id=suite_id,
            number=store.last_number(self.connection, suite_id) + 1,
            digest=digest,
            retrieval_settings=content.retrieval_settings,
            retrieval_config_sha256=content.retrieval_config_sha256,
            case_count=len(content.cases),
            created_at=self.now,
        )
        store.insert_revision(self.connection, revision, cases=content.cases)
        self._record("suite_revision.import", revision, project_id=suite.project_id)
        return revision, True

    def _record(self, action: str, thing: Suite | SuiteRevision, *, project_id: UUID) -> None:
        change = Change(action=action, after=thing, project_id=project_id)
        audit.record(self.connection, change, actor=self.actor, at=self.now)
