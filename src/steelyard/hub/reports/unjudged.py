"""The results that counted and that no reviewer has labelled: what is left to judge."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from steelyard.hub.reports.document import LEGS

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

Thing = dict[str, Any]


def unjudged_of(cases: Iterable[Mapping[str, Any]], *, top_k: int) -> Iterator[Thing]:
    """Give each unlabelled result among the first *top_k* once, with its rank on each leg that has it there.

    The cases are as the API gives them and keep their order; a case's results come by their best rank.
    """
    for case in cases:
        found: dict[str, Thing] = {}
        for leg in LEGS:
            for rank, item in enumerate(_results(case[leg])[:top_k], start=1):
                if item["chunk_id"] not in case["labels"]:
                    _entry(found, case, item)["ranks"][leg] = rank
        yield from sorted(found.values(), key=lambda entry: (min(entry["ranks"].values()), entry["chunk_id"]))


def _results(outcome: Thing | None) -> list[Thing]:
    return outcome.get("ranked_results", []) if outcome else []


def _entry(found: dict[str, Thing], case: Mapping[str, Any], item: Thing) -> Thing:
    chunk_id = item["chunk_id"]
    plain = {"case_id": case["case_id"], "query": case["query"], "chunk_id": chunk_id}
    entry: Thing = found.setdefault(chunk_id, {**plain, "document_id": item.get("document_id"), "ranks": {}})
    return entry
