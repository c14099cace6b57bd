"""Order averaging over HTTP: what is scored, in how many calls, and how it is combined."""

from __future__ import annotations

import json
import math
from itertools import permutations
from typing import TYPE_CHECKING

import pytest
from tests.api.asgi import DECISION, OPTIONS, ROW, Served
from tests.api.test_endpoints import SHARED_KEYS, sha256_of

from steelyard.decide.domain import plans
from steelyard.decide.engines.fake import FakeEngine, FakeTokenizer

if TYPE_CHECKING:
    from collections.abc import Sequence

AVERAGED_KEYS = ["id", "option_ids", "combined", "orderings"]
COMBINED_KEYS = ["method", "orderings", "probabilities", "top", "agreement", "spread"]
IDS = [option["id"] for option in OPTIONS]


def rotations(options: list) -> list[list]:
    return [options[k:] + options[:k] for k in range(len(options))]


def orders(method: str) -> list[list]:
    return rotations(OPTIONS) if method == "rotations" else [list(order) for order in permutations(OPTIONS)]


def options(count: int) -> list[dict]:
    return [{"id": f"o{n}", "description": f"Option {n}"} for n in range(count)]


@pytest.mark.parametrize(("method", "count"), [("rotations", 3), ("all", 6)])
def test_decide_scores_every_ordering_in_one_shared_call(served: Served, engine, method: str, count: int) -> None:
    result = served.decide(orderings=method).json()
    assert engine.calls == ["prefill", f"suffixes {count}"]
    assert list(result) == AVERAGED_KEYS
    assert list(result["combined"]) == COMBINED_KEYS
    assert (result["id"], result["option_ids"]) == ("ticket-1", IDS)
    assert (result["combined"]["method"], result["combined"]["orderings"]) == (method, count)
    own = result["orderings"]
    assert [list(ordering) for ordering in own] == [SHARED_KEYS] * count
    assert [ordering["id"] for ordering in own] == [f"ticket-1#o{k}" for k in range(count)]
    assert own[0]["option_ids"] == IDS
    expected = orders(method)
    assert [ordering["option_ids"] for ordering in own] == [[option["id"] for option in order] for order in expected]
    assert [o["prompt_sha256"] for o in own] == [sha256_of({**ROW, "options": order}) for order in expected]


@pytest.mark.parametrize("method", ["rotations", "all"])
def test_the_orderings_combine_by_the_contracts_formula(served: Served, method: str) -> None:
    result = served.decide(orderings=method).json()
    combined, own = result["combined"], result["orderings"]
    logs = []
    for ordering in own:
        total = math.log(sum(math.exp(logit) for logit in ordering["option_logits"]))
        logs.append({i: x - total for i, x in zip(ordering["option_ids"], ordering["option_logits"], strict=True)})
    means = {name: sum(log[name] for log in logs) / len(logs) for name in IDS}
    weights = {name: math.exp(mean) for name, mean in means.items()}
    expected = [weights[name] / sum(weights.values()) for name in IDS]
    assert combined["probabilities"] == pytest.approx(expected, abs=1e-12)
    assert combined["top"] == max(means, key=means.__getitem__)
    tops = [max(log, key=log.__getitem__) for log in logs]
    assert combined["agreement"] == tops.count(combined["top"]) / len(tops)
    native = [dict(zip(ordering["option_ids"], ordering["probabilities"], strict=True)) for ordering in own]
    assert list(combined["spread"]) == IDS
    assert combined["spread"] == {name: [min(p[name] for p in native), max(p[name] for p in native)] for name in IDS}


def test_a_request_of_plain_and_averaged_decisions_is_one_engine_call_in_request_order(served: Served, engine) -> None:
    decisions = [
        {**DECISION, "id": "z"},
        {**DECISION, "id": "m", "orderings": "rotations"},
        {**DECISION, "id": "a", "orderings": "none"},
        {**DECISION, "id": "k", "options": OPTIONS[:2], "orderings": "all"},
    ]
    answer = served.shared(*decisions).json()
    assert engine.calls == ["prefill", "suffixes 7"]
    assert [result["id"] for result in answer["results"]] == ["z", "m", "a", "k"]
    assert [list(r) for r in answer["results"]] == [SHARED_KEYS, AVERAGED_KEYS, SHARED_KEYS, AVERAGED_KEYS]
    assert [o["id"] for o in answer["results"][3]["orderings"]] == ["k#o0", "k#o1"]


@pytest.mark.parametrize("orderings", [None, "none", ...])
def test_a_plain_decision_keeps_its_exact_result_beside_an_averaged_one(served: Served, orderings: object) -> None:
    plain = DECISION if orderings is ... else {**DECISION, "orderings": orderings}
    (alone,) = served.shared(DECISION).json()["results"]
    mixed = served.shared({**DECISION, "id": "other", "orderings": "rotations"}, plain).json()["results"]
    assert json.dumps(mixed[1]) == json.dumps(alone)


def test_a_null_orderings_means_the_direct_scorer(served: Served, engine) -> None:
    assert "combined" not in served.decide(orderings=None).json()
    assert "combined" not in served.decide(orderings="none", workload=None).json()
    assert engine.calls == ["forward", "forward"]


@pytest.mark.parametrize("orderings", ["", "ALL", "reverse", 1, True, False, [], {}, ["all"]])
def test_any_other_orderings_is_a_422(served: Served, engine, orderings: object) -> None:
    for answer in (served.decide(orderings=orderings), served.shared({**DECISION, "orderings": orderings})):
        assert (answer.status_code, answer.json()["error"]["code"]) == (422, "invalid_request")
    assert engine.calls == []


@pytest.mark.parametrize(("count", "status"), [(2, 200), (3, 200), (4, 200), (5, 422), (16, 422)])
def test_all_orderings_take_at_most_four_options(served: Served, count: int, status: int) -> None:
    assert served.decide(options=options(count), orderings="all").status_code == status
    assert served.shared({**DECISION, "options": options(count), "orderings": "all"}).status_code == status


def test_rotations_take_sixteen_options(served: Served) -> None:
    result = served.decide(options=options(16), orderings="rotations").json()
    assert result["combined"]["orderings"] == 16


@pytest.mark.parametrize(("limit", "status"), [(24, 200), (23, 422)])
def test_expanded_rows_count_toward_the_limit(serving, engine, limit: int, status: int) -> None:
    served = serving(engine, max_decisions=limit)
    assert served.decide(options=options(4), orderings="all").status_code == status
    mixed = [
        {**DECISION, "id": "a", "options": options(4), "orderings": "rotations"},
        {**DECISION, "id": "b", "options": options(16), "orderings": "rotations"},
        *({**DECISION, "id": f"p{n}"} for n in range(4)),
    ]
    answer = served.shared(*mixed)
    assert answer.status_code == status
    if status == 422:
        assert "24 rows" in answer.json()["error"]["message"]
        assert engine.calls == []


def test_rows_are_counted_before_any_list_is_built(serving, monkeypatch: pytest.MonkeyPatch) -> None:
    built: list[object] = []
    monkeypatch.setattr(plans, "expand", built.append)
    answer = serving(max_decisions=64).shared(
        *({**DECISION, "id": str(n), "options": options(16), "orderings": "rotations"} for n in range(64))
    )
    assert (answer.status_code, built) == (422, [])
    assert "1024 rows" in answer.json()["error"]["message"]


@pytest.mark.parametrize(
    "decisions",
    [
        [("a", "rotations"), ("a#o1", "none")],
        [("a#o1", "none"), ("a", "rotations")],
        [("a", "rotations"), ("a#o0", "rotations")],
        [("a", "rotations"), ("a", "rotations")],
        [("a", "rotations"), ("a", "all")],
    ],
)
def test_an_id_that_collides_with_an_expanded_one_is_a_422(served: Served, engine, decisions: list) -> None:
    answer = served.shared(*({**DECISION, "id": name, "orderings": method} for name, method in decisions))
    assert (answer.status_code, answer.json()["error"]["code"]) == (422, "invalid_request")
    assert engine.calls == []


def test_an_id_that_only_looks_like_an_expanded_one_is_fine(served: Served) -> None:
    decisions = [("a", "rotations"), ("a#o3", "none"), ("a#o01", "none"), ("b#o0", "none")]
    answer = served.shared(*({**DECISION, "id": name, "orderings": method} for name, method in decisions))
    assert [result["id"] for result in answer.json()["results"]] == ["a", "a#o3", "a#o01", "b#o0"]


class _Characters(FakeTokenizer):
    """One token per character, so that the engine below can read its prompt."""

    def encode(self, text: str) -> list[int]:
        return [ord(character) for character in text]


class _Biased(FakeEngine):
    """Scores each option by its description, and adds to each letter what stands in *bias*."""

    def __init__(self, scores: dict[str, float], bias: str) -> None:
        super().__init__()
        self.tokenizer = _Characters()
        self._scores = scores
        self._bias = dict(zip("ABCD", map(float, bias.split()), strict=True))

    def _logits(self, tokens: Sequence[int], slots: Sequence[int], *, known: int = 0) -> list[float]:
        prompt = "".join(map(chr, tokens))
        user = prompt.partition("<|im_start|>user\n")[2].partition("<|im_end|>")[0]
        shown = {option["letter"]: option["description"] for option in json.loads(user)["options"]}
        return [self._scores[shown[chr(slot)]] + self._bias[chr(slot)] for slot in slots]


@pytest.mark.parametrize("method", ["rotations", "all"])
@pytest.mark.parametrize("bias", ["0 0 0 0", "9 0 0 0", "-30 2.5 0 17", "0 0 0 1e3"])
def test_averaging_cancels_an_additive_position_bias_exactly(serving, bias: str, method: str) -> None:
    scores = {"Option 0": 0.25, "Option 1": 1.5, "Option 2": -2.0, "Option 3": 1.25}
    result = serving(_Biased(scores, bias)).decide(options=options(4), orderings=method).json()
    total = sum(math.exp(score) for score in scores.values())
    expected = [math.exp(score) / total for score in scores.values()]
    assert result["combined"]["probabilities"] == pytest.approx(expected, abs=1e-9)
    assert result["combined"]["top"] == "o1"


def test_without_averaging_the_same_bias_decides(serving) -> None:
    scores = {"Option 0": 0.25, "Option 1": 1.5, "Option 2": -2.0, "Option 3": 1.25}
    served = serving(_Biased(scores, "0 0 9 0"))
    plain = served.decide(options=options(4)).json()["probabilities"]
    assert plain.index(max(plain)) == 2
    averaged = served.decide(options=options(4), orderings="rotations").json()["combined"]
    assert (averaged["top"], averaged["agreement"]) == ("o1", 0.25)


@pytest.mark.parametrize("method", ["rotations", "all"])
@pytest.mark.parametrize("order", [(0, 1, 2, 3), (3, 2, 1, 0), (2, 0, 3, 1)])
def test_ties_go_to_the_callers_earlier_option_overall_and_per_ordering(serving, method: str, order: tuple) -> None:
    scores = dict.fromkeys(("Option 0", "Option 1", "Option 2", "Option 3"), 0.1)
    asked = [options(4)[n] for n in order]
    combined = serving(_Biased(scores, "0 0 0 0")).decide(options=asked, orderings=method).json()["combined"]
    assert (combined["top"], combined["agreement"]) == (f"o{order[0]}", 1.0)
