from __future__ import annotations

import re
from base64 import b64encode
from hashlib import sha256

import pytest
from tests.unit.hub.reports.comparisons import cases, comparison, completed
from tests.unit.hub.reports.pages import read_page

from steelyard.hub.reports.page import as_html
from steelyard.hub.reports.reading import report_of

PAGE = as_html(report_of(completed(), cases()))
PENDING = as_html(report_of(comparison("pending"), []))


def test_the_page_allows_its_own_style_and_nothing_else():
    style = re.search(r"<style>(.*?)</style>", PAGE, re.DOTALL)
    policy = re.search(r'<meta http-equiv="Content-Security-Policy" content="(.*?)">', PAGE)
    assert style is not None
    assert policy is not None
    digest = b64encode(sha256(style.group(1).encode()).digest()).decode()
    assert policy.group(1) == (
        f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"
    )  # fmt: skip
    assert PAGE.index("Content-Security-Policy") < PAGE.index("<style>")


@pytest.mark.parametrize("text", [PAGE, PENDING])
def test_the_page_runs_and_fetches_nothing(text):
    page = read_page(text)
    assert not {"script", "link", "img", "iframe", "object", "base", "form", "a"} & {e.tag for e in page.elements}
    attributes = {name for element in page.elements for name in element.attributes}
    assert not [name for name in attributes if name.startswith("on") or name in {"style", "src", "href", "srcset"}]
    assert "url(" not in text
    assert "@import" not in text


@pytest.mark.parametrize("text", [PAGE, PENDING])
def test_the_page_can_be_read_without_seeing_it(text):
    page = read_page(text)
    ids = [element.attributes["id"] for element in page.elements if "id" in element.attributes]
    assert len(set(ids)) == len(ids)
    pointed = [
        element.attributes["aria-labelledby"] for element in page.elements if "aria-labelledby" in element.attributes
    ]
    assert set(pointed) <= set(ids)
    tables = [element for element in page.elements if element.tag == "table"]
    captions = [element.text for element in page.elements if element.tag == "caption"]
    assert len(captions) == len(tables)
    assert all(captions)
    assert all(e.attributes.get("scope") in {"col", "row"} for e in page.elements if e.tag == "th")
    scrolling = [element.attributes for element in page.elements if element.attributes.get("role") == "region"]
    assert len(scrolling) == len(tables)
    assert all(each["tabindex"] == "0" and each["aria-label"] for each in scrolling)
    assert [element.attributes["lang"] for element in page.elements if element.tag == "html"] == ["en"]


def test_each_plot_says_in_words_what_it_shows():
    page = read_page(PAGE)
    pictures = [
        element.attributes["aria-labelledby"] for element in page.elements if element.attributes.get("role") == "img"
    ]
    assert pictures == ["deltas-title", "cases-title", "spread-title"]
    titles = {e.attributes["id"]: e.text for e in page.elements if e.tag == "title" and "id" in e.attributes}
    assert "2 worse, 1 equal, 1 better" in titles["cases-title"]
    assert 'role="img"' not in PENDING


def test_what_decides_stands_first():
    titles = [element.text.strip() for element in read_page(PAGE).elements if element.tag == "h2"]
    assert titles == [
        "Verdict", "Critical regressions", "Metrics", "Cases that changed most", "Latency",
        "Errors and unjudged results", "What was compared", "What this report is not",
    ]  # fmt: skip
