from __future__ import annotations

import re
from dataclasses import dataclass

import pytest
from tests.unit.decide.acceptance.acceptances import MODEL, ROWS, Acceptance, Card, hashed, rows

from steelyard.decide.acceptance.checks import CONTROL, MEMORY, NAMES, NOISE, PARITY, SHARED, SPEED, Verdict
from steelyard.decide.acceptance.errors import AcceptanceRefused


@pytest.fixture
def acceptance(tmp_path):
    own = Acceptance(tmp_path)
    own.write()
    return own


def verdicts(outcome) -> list[str]:
    assert [check.name for check in outcome.checks] == list(NAMES)
    return [str(check.verdict) for check in outcome.checks]


def failed(outcome) -> set[str]:
    return {check.name for check in outcome.checks if check.verdict is Verdict.FAILED}


def test_on_a_card_the_reference_model_passes_every_judged_check(acceptance):
    outcome = acceptance.run()
    assert verdicts(outcome) == ["passed", "passed", "passed", "passed", "reported", "reported"]
    assert not outcome.is_failed
    assert acceptance.report()["verdict"] == "passed"


def test_memory_is_measured_first_at_4096_tokens_and_gives_the_cap(acceptance):
    acceptance.run()
    memory = acceptance.report()["checks"][5]["figures"]
    assert 4093 <= memory["input_tokens"] <= 4096
    assert memory["gpu_bytes"] == memory["input_tokens"] * 2**20
    assert memory["recommended_vram_cap_gib"] == 4.25
    assert acceptance.told[0] == (MEMORY, 0)


def test_memory_is_measured_at_the_limit_where_that_is_less(acceptance):
    acceptance.run(max_tokens=900)
    assert 897 <= acceptance.report()["checks"][5]["figures"]["input_tokens"] <= 900


def test_speed_is_that_of_21_criteria_over_a_prefix_of_1500_tokens(acceptance):
    acceptance.run()
    speed = acceptance.report()["checks"][4]["figures"]
    assert (speed["decisions"], len(speed["shared_seconds"]), len(speed["direct_seconds"])) == (21, 3, 3)
    assert 1400 < speed["prefix_tokens"] < 1600
    assert speed["suffix_tokens"] >= 21


def test_progress_says_what_runs_and_adds_up_to_the_whole(acceptance):
    acceptance.run()
    files = ("direct-1.jsonl", "direct-2.jsonl", "shuffled.jsonl", "shared.jsonl")
    assert list(dict.fromkeys(what for what, _ in acceptance.told)) == [MEMORY, *files, SPEED]
    assert sum(units for _, units in acceptance.told) == acceptance.task().units


def test_a_finished_run_measures_again_but_scores_no_row_twice(acceptance):
    acceptance.run()
    before = (acceptance.output / "direct-1.jsonl").read_bytes()
    engine = Card()
    acceptance.run(engine)
    assert (acceptance.output / "direct-1.jsonl").read_bytes() == before
    assert sum(units for _, units in acceptance.told) == acceptance.task().units
    # 21 suffixes and the prefix, thrice, three rows alone and the long one: no row of the file.
    assert len(engine.batches) == 9


@dataclass
class Drifting(Card):
    """Its direct answers are those of the reference, its shared ones are upside down."""

    def forward(self, tokens, slots):
        super().forward(tokens, slots)
        return hashed(tokens, slots)


def test_on_a_card_shared_answers_that_differ_fail(acceptance):
    outcome = acceptance.run(Drifting(logits_of=lambda tokens, slots: [-x for x in hashed(tokens, slots)]))
    assert failed(outcome) == {SHARED}
    assert "## Rows that flip: shared against direct" in acceptance.page()


def test_elsewhere_shared_answers_that_differ_are_reported(acceptance):
    engine = Drifting(
        logits_of=lambda tokens, slots: [-x for x in hashed(tokens, slots)], model=MODEL | {"device": "cpu"}
    )
    assert verdicts(acceptance.run(engine))[3] == "not judged"


@dataclass
class Unsteady(Card):
    """Answers differently each time."""

    def forward(self, tokens, slots):
        super().forward(tokens, slots)
        return hashed([*tokens, self.evaluated_tokens], slots)


def test_an_engine_that_answers_differently_each_time_fails_the_noise_floor(acceptance):
    assert {PARITY, NOISE} <= failed(acceptance.run(Unsteady()))


def test_another_answer_than_the_references_fails_parity_and_names_the_row_with_its_lead(acceptance):
    engine = Card(logits_of=lambda tokens, slots: [-x for x in hashed(tokens, slots)])
    outcome = acceptance.run(engine)
    assert PARITY in failed(outcome)
    flip = acceptance.report()["checks"][0]["figures"]["flips"][0]
    assert flip["id"].startswith("größe-")
    assert flip["lead"] >= 0
    assert "| row | the reference | direct | lead of the reference, in logits |" in acceptance.page()


def test_a_model_that_looks_at_letters_only_fails_the_control(acceptance):
    engine = Card(logits_of=lambda _tokens, slots: [float(-slot) for slot in slots])
    outcome = acceptance.run(engine)
    assert CONTROL in failed(outcome)
    assert acceptance.report()["checks"][2]["figures"]["agreement"] == 1.0


def test_a_row_that_is_too_long_fails_the_checks_that_need_it_and_is_counted_as_wrong(acceptance):
    own = rows()
    own[3]["question"] = "word " * 300
    acceptance.write(*own)
    outcome = acceptance.run(max_tokens=900)
    assert failed(outcome) == {PARITY, NOISE, CONTROL, SHARED}
    assert "1 rows of direct-1.jsonl could not be scored: größe-3 (invalid_request)" in outcome.checks[0].summary
    assert (acceptance.report()["rows"]["labelled"], ROWS) == (12, 12)


def test_a_limit_without_room_for_evidence_fails_both_measurements_in_words(acceptance):
    outcome = acceptance.run(max_tokens=300)
    assert {SPEED, MEMORY} <= failed(outcome)
    assert "leaves no room for evidence; raise --max-tokens" in outcome.checks[4].summary
    assert "leaves no room for evidence; raise --max-tokens" in outcome.checks[5].summary


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"revision": "2"}, "direct-1.jsonl: the output holds results of another model; name a new --output"),
    ],
)
def test_a_folder_of_another_model_is_refused_with_the_files_name(acceptance, change, text):
    acceptance.run()
    with pytest.raises(AcceptanceRefused, match=re.escape(text)):
        acceptance.run(Card(model=MODEL | change))


def test_a_folder_of_other_rows_is_refused_and_kept(acceptance):
    acceptance.run()
    before = {path.name: path.read_bytes() for path in acceptance.output.iterdir()}
    own = rows()
    own[5]["question"] = "Another?"
    acceptance.write(*own)
    text = "direct-1.jsonl: record 6 of the output does not answer the input; name a new --output"
    with pytest.raises(AcceptanceRefused, match=re.escape(text)):
        acceptance.run()
    assert {path.name: path.read_bytes() for path in acceptance.output.iterdir()} == before


def test_a_report_that_cannot_be_written_is_refused_in_words(acceptance):
    acceptance.output.mkdir()
    (acceptance.output / "direct-1.jsonl").touch()
    (acceptance.output / "report.md").mkdir()
    with pytest.raises(AcceptanceRefused, match="cannot write the report: Is a directory; put that right and run"):
        acceptance.run()
