"""What a result may look like; whatever else is sent is refused, and nothing of it comes back."""

from __future__ import annotations

import json
import uuid
from typing import TYPE_CHECKING, Any

import pytest
from tests.comparing import PATH, REVISION, make_stage
from tests.problems import refused

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.comparing import Stage

RANKED = {"chunk_id": "chunk-canary", "score": 0.5}
NUMBERS: list[Any] = ["1", "canary-number", True, False, None, [], {}, [1.0], "NaN"]
# As they stand in JSON, since no Python value is written so.
NO_DOUBLES = ("NaN", "Infinity", "-Infinity", "1e999", "-1e999", "1" + "0" * 400, "9" * 5000)


@pytest.fixture
def claimed(stage: Stage) -> Iterator[tuple[Any, dict[str, Any]]]:
    """Give a claimed comparison and its result, which is published in the end: nothing that was refused changed it."""
    comparison, claim = stage.claimed()
    good = stage.result(claim)
    yield comparison, good
    assert stage.read(comparison)["version"] == 2
    assert stage.call(comparison, "result", **good).json()["status"] == "completed"


def invalid(stage: Stage, comparison: Any, body: dict[str, Any], where: str, *more: str) -> None:
    """Expect a refusal at these places and at no other."""
    problem = refused(stage.call(comparison, "result", **body), 422, "INVALID_REQUEST")
    assert {error["where"] for error in problem["errors"]} == {f"body.{place}" for place in (where, *more)}


def send(stage: Stage, comparison: Any, body: dict[str, Any], number: str) -> Any:
    """Send a body with *number* as it is where it has the text `@number`."""
    content = json.dumps(body).replace('"@number"', number).encode()
    return stage.consumer.send(f"{PATH}/{comparison['id']}/result", content)


def test_each_field_is_needed_and_no_other_is_taken(stage, claimed):
    comparison, good = claimed
    for name in good:
        invalid(stage, comparison, {key: value for key, value in good.items() if key != name}, name)
    for extra in ("canary-extra-field", "status", "row_id", "evaluation_summary", "production_promotion_performed"):
        problem = refused(stage.call(comparison, "result", **good, **{extra: "canary-value"}), 422, "INVALID_REQUEST")
        assert "no field of this request" in problem["detail"]
    odd: list[Any] = [None, "canary-text", 1, True, [], [1], {"canary-key": 1}]
    for value in odd:
        for name in ("current", "candidate", "claim_token", "pins_digest", "consumer_revision_sha256"):
            if not (name == "claim_token" and isinstance(value, str)):
                refused(stage.call(comparison, "result", **{**good, name: value}), 422, "INVALID_REQUEST")
        for name in ("current_gateway_requests", "candidate_gateway_requests"):
            refused(stage.call(comparison, "result", **{**good, name: value}), 422, "INVALID_REQUEST")


def test_digests_are_lowercase_hexadecimal(stage, claimed):
    comparison, good = claimed
    pins = good["pins_digest"]
    for digest in (pins.upper(), pins[:-1], pins + "0", f" {pins}", f"{pins}\n", "", "0x" + pins[2:], "\uff11" * 64):
        invalid(stage, comparison, {**good, "pins_digest": digest}, "pins_digest")
        invalid(stage, comparison, {**good, "consumer_revision_sha256": digest}, "consumer_revision_sha256")


def test_another_pins_digest_is_a_409(stage, claimed):
    comparison, good = claimed
    for digest in (REVISION, "0" * 64, good["pins_digest"][::-1]):
        told = refused(
            stage.call(comparison, "result", **{**good, "pins_digest": digest}), 409, "COMPARISON_PINS_MISMATCH"
        )
        assert told["current_version"] == 2


@pytest.mark.parametrize("leg", ["current", "candidate"])
def test_there_is_exactly_one_result_for_each_case(stage, claimed, leg):
    comparison, good = claimed
    results = good[leg]["results"]
    strange = {**results[0], "case_id": str(uuid.uuid4())}
    for wrong in (
        [],
        results[:2],
        [*results, results[0]],
        [*results[:2], strange],
        [*results, strange],
        results[:1] * 3,
    ):
        answer = stage.call(comparison, "result", **{**good, leg: {"results": wrong}})
        problem = refused(answer, 422, "CASES_MISMATCH")
        assert [error["where"] for error in problem["errors"]] == [f"body.{leg}.results"]
    none: dict[str, Any] = {"results": []}
    problem = refused(
        stage.call(comparison, "result", **{**good, "current": none, "candidate": none}), 422, "CASES_MISMATCH"
    )
    assert len(problem["errors"]) == 2
    invalid(stage, comparison, {**good, leg: {"results": results[:1] * 101}}, f"{leg}.results")


@pytest.mark.parametrize("leg", ["current", "candidate"])
def test_a_mapping_has_the_suites_cases_alone_each_in_one_spelling(stage, claimed, leg):
    comparison, good = claimed
    name = f"{leg}_gateway_requests"
    mapping = good[name]
    case_id, request_id = next(iter(mapping.items()))
    fresh = uuid.uuid4().hex
    problem = refused(
        stage.call(comparison, "result", **{**good, name: {**mapping, str(uuid.uuid4()): fresh}}), 422, "CASES_MISMATCH"
    )
    assert [error["where"] for error in problem["errors"]] == [f"body.{name}.*"]
    letters = "abcdefab-0000-4000-8000-00000000000a"
    keys = (
        letters.upper(), case_id.replace("-", ""), f"{{{case_id}}}", f"urn:uuid:{case_id}", f" {case_id}",
        f"{case_id}\n", "canary-key", "", "0", "1", "\uff10" * 36,
    )  # fmt: skip
    for key in keys:
        problem = refused(
            stage.call(comparison, "result", **{**good, name: {**mapping, key: fresh}}), 422, "INVALID_REQUEST"
        )
        assert [error["where"] for error in problem["errors"]] == [f"body.{name}.*.*"], key
    many = {str(uuid.uuid4()): uuid.uuid4().hex for _ in range(101)}
    invalid(stage, comparison, {**good, name: many}, name)
    ids: list[Any] = [
        1, 17, 1.0, "1", "17", True, None, "", request_id.upper(), str(uuid.UUID(request_id)), request_id[:-1],
        request_id + "0", request_id + "\n", f"urn:uuid:{uuid.UUID(request_id)}", [request_id], {"id": request_id},
        "\uff11" * 32, "canary\x00" + request_id[7:],
    ]  # fmt: skip
    for value in ids:
        if value == request_id.upper() == request_id:
            continue
        invalid(stage, comparison, {**good, name: {**mapping, case_id: value}}, f"{name}.*")


def with_case(stage: Stage, good: dict[str, Any], **fields: Any) -> dict[str, Any]:
    """Return the result with other fields of the current leg's first case."""
    return {**good, "current": stage.leg(case_0=fields)}


def test_a_failed_case_has_a_code_and_no_ranking(stage, claimed):
    comparison, good = claimed
    invalid(stage, comparison, with_case(stage, good, error_code="TIMEOUT"), "current.results.0")
    for code in ("", "timeout", "1A", "A" * 65, "CANARY CODE", "CANARY\n", 1, True, ["TIMEOUT"], "É"):
        body = with_case(stage, good, error_code=code, ranked_results=[])
        invalid(stage, comparison, body, "current.results.0.error_code")


def test_a_case_has_no_other_shape(stage, claimed):
    comparison, good = claimed
    for name in ("case_id", "ranked_results", "latency_ms"):
        body = stage.leg()
        del body["results"][0][name]
        invalid(stage, comparison, {**good, "current": body}, f"current.results.0.{name}")
    odd: list[Any] = [None, 0, 17, True, "1", "canary-case", [], {}, "0" * 31]
    for value in odd:
        invalid(stage, comparison, with_case(stage, good, case_id=value), "current.results.0.case_id")
    odd = [None, "canary-ranking", 1, {"chunk_id": "canary-chunk", "score": 1}]
    for value in odd:
        invalid(stage, comparison, with_case(stage, good, ranked_results=value), "current.results.0.ranked_results")
    refused(stage.call(comparison, "result", **with_case(stage, good, **{"canary-field": 1})), 422, "INVALID_REQUEST")


def test_a_latency_is_a_number_of_milliseconds_from_zero_to_an_hour(stage, claimed):
    comparison, good = claimed
    for value in (*NUMBERS, -1, -0.001, -1e300, -5e-324, 3_600_000.01, 1e308):
        invalid(stage, comparison, with_case(stage, good, latency_ms=value), "current.results.0.latency_ms")
    for number in NO_DOUBLES:
        refused(send(stage, comparison, with_case(stage, good, latency_ms="@number"), number), 422, "INVALID_REQUEST")


def test_a_score_is_any_finite_number(stage, claimed):
    comparison, good = claimed
    place = "current.results.0.ranked_results.0.score"
    for value in NUMBERS:
        invalid(stage, comparison, with_case(stage, good, ranked_results=[{**RANKED, "score": value}]), place)
    for number in NO_DOUBLES:
        body = with_case(stage, good, ranked_results=[{**RANKED, "score": "@number"}])
        refused(send(stage, comparison, body, number), 422, "INVALID_REQUEST")


def test_odd_numbers_that_are_finite_are_kept_and_sort_nothing(stage):
    comparison, claim = stage.claimed()
    scores = [-1e308, 1.7976931348623157e308, 0, -0.0, 5e-324, 10**25, -3, 2**53 + 1, 0.1]
    chunks = [f"chunk-{number}" for number in range(9, 0, -1)]
    ranking = [{"chunk_id": chunk, "score": score} for chunk, score in zip(chunks, scores, strict=True)]
    result = stage.result(claim)
    body = {**result, "current": stage.leg(case_0={"ranked_results": ranking, "latency_ms": 3_600_000})}
    done = stage.call(comparison, "result", **body)
    assert done.status_code == 200, done.text
    shown = stage.operator.get(f"{PATH}/{comparison['id']}/cases", limit=1).json()["items"][0]["current"]
    assert [found["chunk_id"] for found in shown["ranked_results"]] == chunks
    assert [found["score"] for found in shown["ranked_results"]] == [float(score) for score in scores]
    assert shown["latency_ms"] == 3_600_000.0


def test_a_ranking_names_each_chunk_once_and_at_most_a_hundred(stage, claimed):
    comparison, good = claimed
    place = "current.results.0.ranked_results"
    invalid(stage, comparison, with_case(stage, good, ranked_results=[RANKED, {**RANKED, "score": 0.1}]), place)
    many = [{"chunk_id": f"chunk-{number}", "score": 0} for number in range(101)]
    invalid(stage, comparison, with_case(stage, good, ranked_results=many), place)
    repeated = [*many[:99], many[0]]
    invalid(stage, comparison, with_case(stage, good, ranked_results=repeated), place)


def test_a_chunk_has_an_id_and_a_score_and_perhaps_a_document(stage, claimed):
    comparison, good = claimed
    place = "current.results.0.ranked_results.0"
    for field in ("chunk_id", "document_id"):
        for value in ("", "c" * 513, "canary\x00chunk", 1, True, ["canary-chunk"], {"canary-key": 1}):
            body = with_case(stage, good, ranked_results=[{**RANKED, field: value}])
            invalid(stage, comparison, body, f"{place}.{field}")
    for name in RANKED:
        found = {key: value for key, value in RANKED.items() if key != name}
        invalid(stage, comparison, with_case(stage, good, ranked_results=[found]), f"{place}.{name}")
    odd: list[Any] = [{**RANKED, "canary-field": 1}, "canary-chunk", None, [], 1]
    for value in odd:
        body = with_case(stage, good, ranked_results=[value])
        refused(stage.call(comparison, "result", **body), 422, "INVALID_REQUEST")


def test_ids_of_chunks_are_kept_in_any_script_and_told_apart_to_the_last_character(stage):
    comparison, claim = stage.claimed()
    chunks = ["é", "e\u0301", "É", " é", "é ", "\U0001f600", "a" * 512, "\u202e", "\ufeffé", "\r\n", "'; DROP", "\x7f"]
    ranking = [{"chunk_id": chunk, "document_id": chunk, "score": 1.0} for chunk in chunks]
    body = {**stage.result(claim), "candidate": stage.leg(case_2={"ranked_results": ranking})}
    assert stage.call(comparison, "result", **body).status_code == 200
    shown = stage.operator.get(f"{PATH}/{comparison['id']}/cases", offset=2).json()["items"][0]["candidate"]
    assert shown["ranked_results"] == ranking


def test_the_order_of_results_is_none_of_the_hubs_business_and_the_suites_order_is_shown(stage):
    comparison, claim = stage.claimed()
    result = stage.result(claim)
    result["current"]["results"].reverse()
    assert stage.call(comparison, "result", **result).json()["status"] == "completed"
    shown = stage.operator.get(f"{PATH}/{comparison['id']}/cases").json()["items"]
    assert [each["case_id"] for each in shown] == [case["case_id"] for case in stage.cases]
    assert [each["current"]["latency_ms"] for each in shown] == [20.0, 21.0, 22.0]


def test_the_largest_result_is_taken(asked):
    stage = make_stage(asked, cases=100)
    comparison, claim = stage.claimed()
    ranking = [{"chunk_id": f"{'c' * 150}-{n}", "document_id": "d" * 150, "score": n / 7} for n in range(100)]
    legs = {f"case_{number}": {"ranked_results": ranking} for number in range(100)}
    result = stage.result(claim, current=stage.leg(**legs), candidate=stage.leg(**legs))
    assert 7_000_000 < len(json.dumps(result)) < 8 << 20
    done = stage.call(comparison, "result", **result)
    assert done.json()["status"] == "completed"
