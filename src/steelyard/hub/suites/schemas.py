"""What requests about suites look like. Answers are the things of `domain` themselves.

Every fault of an import is told at once, by the place of its case: an import of a hundred cases is mended in one go.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Annotated, Any
from uuid import UUID

from pydantic import (
    Field,
    StringConstraints,
    TypeAdapter,
    ValidationError,
    ValidatorFunctionWrapHandler,
    WrapValidator,
)
from pydantic_core import ErrorDetails, InitErrorDetails, PydanticCustomError

from steelyard.hub.rest.fields import Body, CountFirst, Moment, Name, OpenObject, Sha256, Slug, example
from steelyard.hub.rest.paging import PageQuery
from steelyard.hub.rest.patterns import WITHOUT_NUL
from steelyard.hub.suites.domain import LARGEST_TOP_K, MOST_CASES, Case, Content, Review, other_corpora, repeats

if TYPE_CHECKING:
    from collections.abc import Iterator

_ID = "5b1f0f0e-8a55-4c0e-9a2f-3f4f6f3d2c11"
_DATE_FIRST = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}[Tt ]")
_DIGEST: TypeAdapter[str] = TypeAdapter(Sha256)
_ONE_CORPUS = "is not that of the cases before it; all cases of a revision are about one corpus"
_LARGEST_GRADE = 2**31 - 1
_EXAMPLE_CASE = {
    "case_id": "0e0a2a52-4c3f-4b9d-8f6a-1c1d2f3a4b5c",
    "query": "How do I get a refund?",
    "labels": {"billing-7": 3, "billing-2": 1},
    "critical": True,
    "review": {"reviewer": "Ada", "reviewed_at": "2026-11-02T09:30:00Z"},
    "label_provenance": {"corpus_revision": "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"},
}


def _in_agreement(value: Any, check: ValidatorFunctionWrapHandler) -> Any:
    """Check the cases, and tell what is wrong with each together with what is wrong between them."""
    cases = value[:MOST_CASES] if isinstance(value, list) else []
    found = [*_repeated(cases), *_of_other_corpora(cases)]
    try:
        checked = check(value)
    except ValidationError as error:
        found = [_same(item) for item in error.errors(include_url=False)] + found
        checked = None
    if found:
        raise ValidationError.from_exception_data("cases", found)
    return checked


def _repeated(cases: list[Any]) -> Iterator[InitErrorDetails]:
    for place, first in repeats([_case_id(case) for case in cases]):
        yield _fault((place, "case_id"), f"the case at {first} has this id too")


def _of_other_corpora(cases: list[Any]) -> Iterator[InitErrorDetails]:
    for place in other_corpora([_corpus(case) for case in cases]):
        yield _fault((place, "label_provenance", "corpus_revision"), _ONE_CORPUS)


def _fault(place: tuple[int | str, ...], rule: str) -> InitErrorDetails:
    return {"type": PydanticCustomError("value_error", "{error}", {"error": rule}), "loc": place, "input": None}


def _same(item: ErrorDetails) -> InitErrorDetails:
    """Return what was found, without what was sent."""
    return {"type": item["type"], "loc": item["loc"], "input": None, "ctx": item.get("ctx", {})}


def _case_id(case: object) -> UUID | None:
    try:
        return UUID(case["case_id"]) if isinstance(case, dict) else None
    except (KeyError, ValueError, AttributeError, TypeError):
        return None


def _corpus(case: object) -> str | None:
    try:
        return _DIGEST.validate_python(case["label_provenance"]["corpus_revision"]) if isinstance(case, dict) else None
    except (KeyError, TypeError, ValidationError):
        return None


ChunkId = Annotated[str, StringConstraints(min_length=1, max_length=512, pattern=WITHOUT_NUL)]
Grade = Annotated[int, Field(ge=1, le=_LARGEST_GRADE, strict=True)]
# It is sent as it is, so it is stored as it is, spaces at its ends included.
Query = Annotated[str, StringConstraints(min_length=1, max_length=10_000, pattern=WITHOUT_NUL)]


class NewSuite(Body):
    """A named set of reviewed questions."""

    model_config = example(project_id=_ID, slug="faq", name="Frequent questions")

    project_id: UUID
    slug: Slug
    name: Name


class NewReview(Body):
    """Who checked a case's labels, and when; a case without a review is refused."""

    reviewer: Name
    reviewed_at: Moment = Field(description="RFC 3339 with an offset.")


class LabelProvenance(OpenObject):
    """Where a case's labels come from, in whatever plain JSON beside the digest of the corpus that they are about."""

    corpus_revision: Sha256 = Field(description="The same in every case of a revision.")


class NewCase(Body):
    """One reviewed question."""

    case_id: UUID
    query: Query = Field(description="Sent exactly as it is here.")
    labels: Annotated[dict[ChunkId, Grade], Field(min_length=1, max_length=1000), CountFirst()] = Field(
        description="The relevant chunks: grade, 1 or more, by chunk id."
    )
    critical: bool = Field(strict=True)
    review: NewReview
    label_provenance: LabelProvenance

    def case(self) -> Case:
        """Return the domain's case."""
        return Case(
            case_id=self.case_id,
            query=self.query,
            labels=self.labels,
            critical=self.critical,
            review=Review(reviewer=self.review.reviewer, reviewed_at=self.review.reviewed_at),
            label_provenance=self.label_provenance.model_dump(),
        )


class RetrievalSettings(OpenObject):
    """How the project retrieves: how many results count, and whatever plain JSON its retrieval needs beside it."""

    top_k: int = Field(ge=1, le=LARGEST_TOP_K, strict=True)


class NewSuiteRevision(Body):
    """What a suite asks from now on. The same content again is the same revision."""

    model_config = example(retrieval_settings={"top_k": 10, "min_score": 0.2}, cases=[_EXAMPLE_CASE])

    retrieval_settings: RetrievalSettings
    cases: Annotated[list[NewCase], Field(min_length=1, max_length=MOST_CASES), WrapValidator(_in_agreement)]

    def content(self) -> Content:
        """Return the domain's content."""
        return Content(
            retrieval_settings=self.retrieval_settings.model_dump(), cases=tuple(case.case() for case in self.cases)
        )


class SuiteQuery(PageQuery):
    """Suites."""

    project_id: UUID | None = None
    slug: Slug | None = None


class RevisionQuery(PageQuery):
    """Revisions of a suite."""

    digest: Sha256 | None = None
