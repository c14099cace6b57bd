from __future__ import annotations

import pytest

from steelyard.models.progress import LineReport, SilentReport, readable_size


@pytest.mark.parametrize(
    ("size_bytes", "words"),
    [
        (1_117_320_768, "1.12 GB"),
        (98_362_432, "98.4 MB"),
        (491_400_064, "491 MB"),
        (1000, "1.00 kB"),
        (10**15, "1,000,000 GB"),
        (999, "999 bytes"),
    ],
)
def test_sizes_read_as_disks_are_sold(size_bytes, words):
    assert readable_size(size_bytes) == words


def test_a_log_gets_a_line_for_each_hundred_megabytes_and_none_between():
    lines: list[str] = []
    with LineReport(lines.append).track("Downloading x", total_bytes=400_000_000) as on_bytes:
        for _ in range(400):
            on_bytes(1_000_000)
    assert lines == [f"Downloading x: {percent} % of 400 MB" for percent in (25, 50, 75, 100)]


def test_a_large_file_gets_ten_lines():
    lines: list[str] = []
    with LineReport(lines.append).track("x", total_bytes=50_000_000_000) as on_bytes:
        for _ in range(500):
            on_bytes(100_000_000)
    assert len(lines) == 10


def test_bytes_that_are_taken_back_are_told_again():
    lines: list[str] = []
    with LineReport(lines.append).track("x", total_bytes=10) as on_bytes:
        on_bytes(10)
        on_bytes(-10)
        on_bytes(10)
    assert lines == ["x: 100 % of 10 bytes"] * 2


def test_a_sentence_is_one_line():
    lines: list[str] = []
    LineReport(lines.append).say("Hello.")
    assert lines == ["Hello."]


def test_silence_writes_nothing(capsys):
    report = SilentReport()
    report.say("Hello.")
    with report.track("x", total_bytes=1) as on_bytes:
        on_bytes(1)
    assert capsys.readouterr() == ("", "")
