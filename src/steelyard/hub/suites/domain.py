"""A project's reviewed questions: suites, their immutable revisions, and what a revision's digests are over."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from steelyard.hall.canonical import sha256_of_json

MOST_CASES = 100
LARGEST_TOP_K = 100


@dataclass(frozen=True, kw_only=True)
class Suite:
    """A named set of questions of a project; what it asks is in its revisions."""

    id: UUID
    project_id: UUID
    slug: str
    name: str
    created_at: datetime


@dataclass(frozen=True, kw_only=True)
class SuiteRevision:
    """What a suite asks and how its answers are retrieved, for good; equal content is the same revision."""

    id: UUID
    suite_id: UUID
    number: int
    digest: str
    retrieval_settings: dict[str, Any]
    retrieval_config_sha256: str
    case_count: int
    created_at: datetime


@dataclass(frozen=True, kw_only=True)
class Review:
    """Who checked a case's labels, and when."""

    reviewer: str
    reviewed_at: datetime


@dataclass(frozen=True, kw_only=True)
class Case:
    """One reviewed question: *query* is sent exactly as it is, *labels* gives the grade (1 or more) by chunk id."""

    case_id: UUID
    query: str
    labels: dict[str, int]
    critical: bool
    review: Review
    label_provenance: dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class Content:
    """What is imported as a revision. Its values are plain JSON, and its cases' order is part of it."""

    retrieval_settings: dict[str, Any]
    cases: tuple[Case, ...]

    @property
    def digest(self) -> str:
        """The SHA-256 of the canonical JSON of all of it."""
        cases = [_plain(case) for case in self.cases]
        return sha256_of_json({"retrieval_settings": self.retrieval_settings, "cases": cases})

    @property
    def retrieval_config_sha256(self) -> str:
        """The SHA-256 of the retrieval settings' canonical JSON."""
        return sha256_of_json(self.retrieval_settings)


def _plain(case: Case) -> dict[str, Any]:
    return {
        "case_id": str(case.case_id),
        "query": case.query,
        "labels": case.labels,
        "critical": case.critical,
        "review": {"reviewer": case.review.reviewer, "reviewed_at": _text_of(case.review.reviewed_at)},
        "label_provenance": case.label_provenance,
    }


def _text_of(moment: datetime) -> str:
    """Return *moment* as a digest has it: in UTC, always with six decimals."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def other_corpora(corpora: list[str | None]) -> list[int]:
    """Return the places in *corpora* that name another corpus than the first named one; None names none."""
    named = [corpus for corpus in corpora if corpus is not None]
    return [place for place, corpus in enumerate(corpora) if corpus not in (None, *named[:1])]


def repeats(ids: list[UUID | None]) -> list[tuple[int, int]]:
    """Return each place in *ids* whose id stood before, with its first place; None is no id."""
    first: dict[UUID, int] = {}
    found = []
    for place, case_id in enumerate(ids):
        if case_id is not None and first.setdefault(case_id, place) != place:
            found.append((place, first[case_id]))
    return found
