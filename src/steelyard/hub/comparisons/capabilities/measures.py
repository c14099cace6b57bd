"""Measures of one ranking against reviewed labels, each from 0 to 1 and cut at k.

A ranking is a list of chunk ids without repeats, best first, and may be empty or shorter than k; what stands beyond k
does not count. *labels* gives the grade of each relevant chunk, of which there is at least one; a chunk without a
label counts as irrelevant. The definitions are those of trec_eval 9, whose names stand beside ours.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence


def ndcg(ranking: Sequence[str], *, labels: Mapping[str, int], k: int) -> float:
    """Return the discounted gain over that of the best possible ranking of all relevant chunks (`ndcg_cut`).

    A chunk at rank r gains its grade over log2(r + 1): Järvelin & Kekäläinen, Cumulated gain-based evaluation of IR
    techniques (2002), with the discount at every rank and the linear gain of trec_eval.
    """
    ideal = sorted(labels.values(), reverse=True)
    return _discounted(_grades(ranking[:k], labels)) / _discounted(ideal[:k])


def recall(ranking: Sequence[str], *, labels: Mapping[str, int], k: int) -> float:
    """Return the share of all relevant chunks that are within k (`recall`); below 1 where k is less than they are."""
    return len(_relevant_ranks(ranking, labels, k)) / len(labels)


def reciprocal_rank(ranking: Sequence[str], *, labels: Mapping[str, int], k: int) -> float:
    """Return one over the rank of the first relevant chunk within k, else 0 (`recip_rank` of the cut ranking).

    Its mean is MRR: Voorhees, The TREC-8 Question Answering Track Report (1999).
    """
    return next((1 / rank for rank in _relevant_ranks(ranking, labels, k)), 0.0)


def average_precision(ranking: Sequence[str], *, labels: Mapping[str, int], k: int) -> float:
    """Return the precision at each relevant chunk within k, summed, over the count of all relevant ones (`map_cut`).

    Its mean is MAP: Buckley & Voorhees, Evaluating Evaluation Measure Stability (2000).
    """
    ranks = _relevant_ranks(ranking, labels, k)
    return math.fsum(found / rank for found, rank in enumerate(ranks, start=1)) / len(labels)


def hit(ranking: Sequence[str], *, labels: Mapping[str, int], k: int) -> float:
    """Return 1 where a relevant chunk is within k, else 0 (`success`)."""
    return float(bool(_relevant_ranks(ranking, labels, k)))


def judged(ranking: Sequence[str], *, labels: Mapping[str, int], k: int) -> float:
    """Return the share of the chunks within k that have a label, 0 for an empty ranking (ir_measures' `Judged`).

    It is over what was retrieved, not over k: a short ranking without unknown chunks is fully judged.
    """
    top = ranking[:k]
    return sum(chunk in labels for chunk in top) / len(top) if top else 0.0


def unjudged(ranking: Sequence[str], *, labels: Mapping[str, int], k: int) -> list[str]:
    """Return the chunks within k that have no label, best first."""
    return [chunk for chunk in ranking[:k] if chunk not in labels]


def _grades(chunks: Sequence[str], labels: Mapping[str, int]) -> list[int]:
    return [labels.get(chunk, 0) for chunk in chunks]


def _discounted(grades: Iterable[int]) -> float:
    return math.fsum(grade / math.log2(rank + 1) for rank, grade in enumerate(grades, start=1))


def _relevant_ranks(ranking: Sequence[str], labels: Mapping[str, int], k: int) -> list[int]:
    return [rank for rank, chunk in enumerate(ranking[:k], start=1) if chunk in labels]
