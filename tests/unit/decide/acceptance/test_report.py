from __future__ import annotations

import hashlib
import importlib.metadata
import math
from datetime import datetime

import pytest
from tests.unit.decide.acceptance.acceptances import MODEL, Acceptance, Card, hashed

from steelyard.decide.acceptance.checks import PARITY, Check, Verdict
from steelyard.decide.acceptance.outcome import Outcome
from steelyard.decide.acceptance.report import Circumstances, markdown_of, report_of


@pytest.fixture
def acceptance(tmp_path):
    own = Acceptance(tmp_path)
    own.write()
    return own


def test_the_report_says_what_was_run_on_what_and_when(acceptance):
    acceptance.run()
    report = acceptance.report()
    assert report["steelyard_version"] == importlib.metadata.version("steelyard")
    assert report["model"] == MODEL
    assert report["engine"]["name"] == "scripted"
    assert report["engine"]["tolerance"] == 0.0
    for name in ("rows", "reference"):
        content = (acceptance.folder / f"{name}.jsonl").read_bytes()
        assert report[name]["sha256"] == hashlib.sha256(content).hexdigest()
        assert report[name]["file"] == f"{name}.jsonl"
    started, ended = (datetime.fromisoformat(report[key]) for key in ("started_at", "ended_at"))
    assert started <= ended
    assert str(started.tzinfo) == "UTC"
    assert report["settings"]["max_tokens"] == 4096
    assert set(report["accuracy"]) == {"direct", "shared", "reference"}


@pytest.mark.parametrize("name", ["report.json", "report.md"])
def test_the_report_names_files_without_their_folders_and_holds_no_rows_text(acceptance, name):
    acceptance.run(Card(model=MODEL | {"source": "/home/me/secret-folder/model.gguf"}))
    text = (acceptance.output / name).read_text(encoding="utf-8")
    assert "model.gguf" in text
    for secret in ("secret", str(acceptance.folder), "Evidence", "Which of three", "It is"):
        assert secret not in text


def test_the_page_has_a_row_per_check_and_links_the_plot_only_where_there_is_one(acceptance):
    outcome = acceptance.run(is_plotted=True)
    page = acceptance.page()
    for check in outcome.checks:
        assert f"| {check.name} | {check.verdict} |" in page
    assert "](report.png)" in page
    assert (acceptance.output / "report.png").stat().st_size < 200_000
    acceptance.run()
    assert "report.png" not in acceptance.page()


def test_rows_without_labels_have_no_accuracy(acceptance):
    report = {"model": {}, "engine": {"name": "x", "is_model": False}, "rows": {}, "reference": {}, "verdict": "passed"}
    named = dict.fromkeys(("file", "rows", "labelled", "sha256"), 0)
    report |= {"rows": named, "reference": named, "started_at": "", "ended_at": "", "steelyard_version": ""}
    page = markdown_of(report, Outcome(checks=(), comparisons={}, accuracy={"direct": None}), plot=None)
    assert "Accuracy" not in page
    assert "x, which is no model" in page


def test_many_flips_are_cut_on_the_page_and_whole_in_the_json(acceptance):
    flips = [{"id": f"r|{i} <b>", "before": "a", "after": "b", "lead": 0.25} for i in range(45)]
    check = Check(PARITY, Verdict.FAILED, "", {"flips": flips})
    outcome = Outcome(checks=(check,), comparisons={}, accuracy={})
    times = datetime.fromisoformat("2026-01-01T00:00:00+00:00")
    report = report_of(
        outcome, task=acceptance.task(), engine=Card(), circumstances=Circumstances(times, times, {"threads": None})
    )
    page = markdown_of(report, outcome, plot=None)
    assert "| r\\|39 &lt;b&gt; | a | b | 0.25 |\n\n5 more are in `report.json`." in page
    assert "r\\|40" not in page


def test_a_number_that_is_not_finite_is_null(acceptance):
    check = Check(PARITY, Verdict.FAILED, "", {"largest_gap": math.nan, "list": (math.inf, 1.0)})
    times = datetime.fromisoformat("2026-01-01T00:00:00+00:00")
    outcome = Outcome(checks=(check,), comparisons={}, accuracy={})
    report = report_of(outcome, task=acceptance.task(), engine=Card(), circumstances=Circumstances(times, times, {}))
    assert report["checks"] == [
        {"name": PARITY, "verdict": "failed", "summary": "", "figures": {"largest_gap": None, "list": [None, 1.0]}}
    ]


def test_flips_are_shown_for_failed_checks_only(acceptance):
    engine = Card(logits_of=lambda t, s: [-x for x in hashed(t, s)], model=MODEL | {"source": "other"})
    acceptance.run(engine)
    assert "Rows that flip" not in acceptance.page()
    assert acceptance.report()["checks"][0]["figures"]["flips"]


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("a|b", "a\\|b"),
        ("a\\|b", "a\\\\\\|b"),
        ("![x](http://a.example/x.png)", "!\\[x\\](http://a.example/x.png)"),
        ("`x` *y* _z_ ~~w~~ $v$", "\\`x\\` \\*y\\* \\_z\\_ \\~\\~w\\~\\~ \\$v\\$"),
        ("two\nlines", "two\\\\nlines"),
        ("<b>&", "&lt;b&gt;&amp;"),
        ("model_q4_1.gguf", "model_q4_1.gguf"),
    ],
)
def test_a_name_is_shown_letter_for_letter_and_is_no_markdown(name, shown):
    report = {"model": {"source": name}, "engine": {"name": "x", "is_model": True}, "verdict": "passed"}
    named = {"file": "f", "sha256": "0", "rows": 1, "labelled": 0}
    report |= {"rows": named, "reference": named, "started_at": "", "ended_at": "", "steelyard_version": ""}
    page = markdown_of(report, Outcome(checks=(), comparisons={}, accuracy={}), plot=None)
    assert page.startswith(f"# Acceptance of {shown}: passed\n")
    assert f"\n| model source | {shown} |\n" in page
