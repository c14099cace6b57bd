"""One comparison from its intent to its end."""

from __future__ import annotations

from tests.comparing import PATH, REVISION


def test_a_comparison_is_created_claimed_and_published(stage):
    comparison = stage.create()
    assert (comparison["status"], comparison["version"], comparison["case_count"]) == ("pending", 1, 3)

    [assigned] = stage.consumer.get(f"{PATH}/assigned").json()["items"]
    assert assigned == comparison

    claim = stage.claim(comparison)
    assert [case["query"] for case in claim["cases"]] == [case["query"] for case in stage.cases]
    assert claim["comparison"]["status"] == "running"

    answer = stage.call(comparison, "result", **stage.result(claim))
    assert answer.status_code == 200, answer.text
    done = answer.json()
    assert (done["status"], done["version"], done["consumer_revision_sha256"]) == ("completed", 3, REVISION)
    assert done["production_promotion_performed"] is False
    assert done["evaluation_summary"]["metric_deltas"]["ndcg"]["current"] == 1.0
    assert stage.read(comparison) == done
    assert stage.consumer.get(f"{PATH}/assigned").json()["items"] == []
