from __future__ import annotations

from tests.unit.hub.reports.comparisons import case, cases, identity, outcome

from steelyard.hub.reports.unjudged import unjudged_of


def test_each_unlabelled_result_is_given_once_with_its_rank_on_each_leg():
    one = case(
        7, "Where?", {"a-1": 1}, outcome("b-1", "a-1", "c-1", ndcg=0.5), outcome("c-1", "b-1", "d-1", ndcg=0.0)
    )  # fmt: skip
    plain = {"case_id": identity(7), "query": "Where?"}
    assert list(unjudged_of([one], top_k=2)) == [
        {**plain, "chunk_id": "b-1", "document_id": "b", "ranks": {"current": 1, "candidate": 2}},
        {**plain, "chunk_id": "c-1", "document_id": "c", "ranks": {"candidate": 1}},
    ]


def test_cases_keep_their_order():
    found = list(unjudged_of(cases(), top_k=3))
    assert [entry["chunk_id"] for entry in found] == ["faq-9", "ship-2", "order-9", "order-3"]
    assert {len(entry["ranks"]) for entry in found} == {1}


def test_a_leg_without_an_answer_or_with_one_of_another_form_has_nothing_to_judge():
    assert list(unjudged_of([case(1, "?", {}, None, {"answer": 1})], top_k=3)) == []


def test_a_document_that_was_not_told_is_none():
    leg = {"ranked_results": [{"chunk_id": "x", "score": 1.0}]}
    assert [entry["document_id"] for entry in unjudged_of([case(1, "?", {}, leg, None)], top_k=1)] == [None]
