"""Pages of lists: newest first, by limit and offset."""

from __future__ import annotations

from typing import Any, Generic, TypeVar

from pydantic import BaseModel, ConfigDict, Field

MOST_ITEMS = 100
T = TypeVar("T")


class PageQuery(BaseModel):
    """The query of a list; subclasses add filters. Unknown parameters are refused, since they would filter nothing."""

    model_config = ConfigDict(extra="forbid")

    limit: int = Field(50, ge=1, le=MOST_ITEMS, description="Most items in the answer.")
    offset: int = Field(0, ge=0, le=10_000, description="Items to leave out, from the newest.")

    def arguments(self) -> dict[str, Any]:
        """Return limit, offset and the filters that were given."""
        return self.model_dump(exclude_none=True)


class Page(BaseModel, Generic[T]):
    """One page of a list, newest first."""

    items: list[T]
    limit: int
    offset: int
    has_more: bool


def page_of(found: list[T], *, query: PageQuery) -> Page[T]:
    """Return the page of *found*, which holds one item over the limit where there are more."""
    return Page(items=found[: query.limit], limit=query.limit, offset=query.offset, has_more=len(found) > query.limit)
